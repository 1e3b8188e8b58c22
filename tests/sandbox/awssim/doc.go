// Package awssim is an AWS account that lives in one process.
//
// One http.Handler answers what an unmodified AWS SDK sends to EC2, IAM, STS,
// SSM, SQS, Pricing, EventBridge and EKS, and what a pod asks the EKS Pod Identity
// agent; the credential scope of the request says which service is meant. All of
// them read and write one consistent state: an instance has a root volume, an
// interface with an address of its subnet, and a life cycle from pending to
// terminated that observers can subscribe to.
//
// It promises callers no more than AWS does. Listings of EC2 have no order, and
// pages that are short or empty at times (answers.go); with Lag and Flap they miss
// instances, or show what was (sight.go). What a role may do is what its policies
// allow (authorize.go, access*.go, the package policy), and who may assume it what
// its trust policy says (sts.go, podidentity.go).
//
// Tests steer it through the admin endpoint under /_sandbox/ (or the methods of
// Simulator): they make calls slow, fail or lose their answer, read which calls
// were made, and ask what is left of a cluster.
//
// It never answers an action it does not know with success, and it never checks
// signatures of requests: an access key is all that identifies a caller, and one
// that stands for no role is an administrator's. Tokens of ServiceAccounts are checked.
//
// A request passes through one file after another: route.go (which service,
// action and principal), fault.go and authorize.go (may it fail, may it pass),
// then the action in the file named after its resource, and call.go (what was
// done). An action is a method of account, which holds all state and is guarded
// by the simulator's mutex; actions never block and never take locks.
package awssim
