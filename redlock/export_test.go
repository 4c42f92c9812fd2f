package redlock

// ACLRights are what the least privileged user has.
const ACLRights = aclRights
