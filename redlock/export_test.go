package redlock

// ACLRights are the rights of the least privileged user.
const ACLRights = aclRights
