# Read by the playground's shell, in its folder.
. ./cluster.env
PS1='slipway> '
things
