package redlock

// ACLRights are the rights of the least privileged user.
const ACLRights = aclRights

// What a LostError says of nodes that gave no reason of their own.
var (
	ErrNoAnswerYet = errNoAnswerYet
	ErrUpButTooFew = errNotAsked
)
