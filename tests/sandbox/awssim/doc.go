// Package awssim is an AWS account that lives in one process.
//
// One http.Handler answers what an unmodified AWS SDK sends to EC2, IAM, STS,
// SSM, SQS, Pricing, EventBridge and EKS; the credential scope of the request
// says which service is meant. All of them read and write one consistent state:
// an instance has a root volume, an interface with an address of its subnet, and
// a life cycle from pending to terminated that observers can subscribe to.
//
// Tests steer it through the admin endpoint under /_sandbox/ (or the methods of
// Simulator): they make calls slow, fail or lose their answer, read which calls
// were made, and ask what is left of a cluster.
//
// It never answers an action it does not know with success, and it never checks
// signatures: an access key is all that identifies a caller.
//
// A request passes through one file after another: route.go (which service,
// action and principal), fault.go and authorize.go (may it fail, may it pass),
// then the action in the file named after its resource, and call.go (what was
// done). An action is a method of account, which holds all state and is guarded
// by the simulator's mutex; actions never block and never take locks.
package awssim
