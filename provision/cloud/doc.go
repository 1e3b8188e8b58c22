// Package cloud queries AWS, and is the only package that uses the AWS SDK.
//
// Its input is names (a cluster, NodePools, provider IDs). Its output is plain values (Instance, Cluster, Identity) and
// typed errors: *DeniedError, *CredentialsError, *ThrottledError, *UnreachableError, *PartialError, *NotFoundError.
// Their messages contain no request ID and no time, so conditions made from them are stable. Verify, a pure function,
// decides whether the responses come from the right account.
//
// The package only reads, except for Deleter and Provisioner, which a command uses if its user requests it. The SDK retries, and every
// call has a timeout.
package cloud
