package pure

// The rights that an ACL gives a user of locks, on the keys with its prefix
// (R22). Errors, redlock doctor, docs/deploy.md and the manifests of
// contrib/kubernetes say them, and tests compare those with these.
const (
	// Rights are the least that a client needs. All tested servers know them.
	Rights = "+set +get +mget +del +pexpire +pttl +evalsha +script|load " +
		"+hello +auth +client|setname +client|id +client|info +client|kill +client|tracking +client|caching +ping +info " +
		"+time +select"
	// RightsOfQueues are for read/write and fair locks besides.
	RightsOfQueues = "+zadd +zrem +zscore +zrange +zrank +zcard +zremrangebyscore"
	// RightsOfPermits are for semaphores besides.
	RightsOfPermits = "+hmget +hset +hdel +hlen +hgetall"
	// RightToList is for admin.List besides.
	RightToList = "+scan"
	// RightToIntroduce lets a server show which library is connected. Redis 7.0
	// refuses a rule that has it.
	RightToIntroduce = "+client|setinfo"
)
