//! Accounts.

use super::super::Passwd;
use super::Verdict;

pub(super) fn validate(passwd: &Passwd, verdict: &mut Verdict) {
    for (index, user) in passwd.users.iter().enumerate() {
        let at = format!("passwd.users[{index}]");
        check_name(&user.name, &at, verdict);
        for (line, key) in user.ssh_authorized_keys.iter().enumerate() {
            // A key on two lines would be two keys, and the second may be unintended.
            if key.trim_end().contains(['\n', '\r']) {
                let field = format!("{at}.sshAuthorizedKeys[{line}]");
                verdict.warn(field, "holds more than one line");
            }
        }
        if user
            .password_hash
            .as_deref()
            .is_some_and(|hash| hash.contains([':', '\n', '\r']))
        {
            let why = "password hash holds a colon or a line break";
            verdict.refuse(format!("{at}.passwordHash"), why);
        }
    }
    for (index, group) in passwd.groups.iter().enumerate() {
        check_name(&group.name, &format!("passwd.groups[{index}]"), verdict);
    }
}

fn check_name(name: &str, at: &str, verdict: &mut Verdict) {
    let why = if name.is_empty() {
        "name not specified".to_owned()
    } else if name.contains([':', '/', ',']) || name.contains(char::is_control) || name == ".." {
        format!("invalid account name {name:?}")
    } else {
        return;
    };
    verdict.refuse(format!("{at}.name"), why);
}
