// Package resp is the face for Redis clients. redis-cli, rueidis, go-redis, ioredis and
// other clients of RESP2 or RESP3 work with it unmodified.
//
// It knows commands and translates them to calls of capabilities; it must not know HTTP,
// the engines' names or how keys are laid out. DESIGN.md explains how a pipeline of
// commands becomes few transactions; docs/redis.md lists the commands and every difference
// from Redis 7.0.
package resp
