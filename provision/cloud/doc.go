// Package cloud asks AWS, and is the one home of the AWS SDK.
//
// In go names (a cluster, NodePools, provider IDs), out come plain values
// (Instance, Cluster, Identity) and typed errors: *DeniedError,
// *CredentialsError, *ThrottledError, *UnreachableError, *PartialError,
// *NotFoundError. Their
// messages carry no request ID and no time, so that a condition made from one
// does not change by itself. Whether the answers are those of the right account
// is Verify's to say, a function from values to a value.
//
// It reads and never writes, but for Ender, which a command has whose user asks for it. Retries are the SDK's, and every call is bounded
// in time.
package cloud
