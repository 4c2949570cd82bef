"""The lab: a User-mode Linux kernel with the real TCP stack, bridge and netem, in virtual time.

`kernel` and `image` build what it boots from, `boot` runs a command in it, `guest` is its init.
"""
