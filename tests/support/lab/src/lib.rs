//! The lab: real parts on one machine, and the observer that judges what happened on them.
