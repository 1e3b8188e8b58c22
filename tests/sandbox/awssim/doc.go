// Package awssim is an AWS account in one process.
//
// One http.Handler responds to what an unmodified AWS SDK sends to EC2, IAM, STS, SSM, SQS, Pricing, EventBridge, EKS and
// CloudFormation, and to what a pod requests from the EKS Pod Identity agent; the credential scope of the request determines the
// service. All of them read and write one consistent state: an instance has a root volume, an interface with an address
// of its subnet, and a lifecycle from pending to terminated that observers can subscribe to.
//
// It guarantees callers no more than AWS does. Listings of EC2 have no order, and pages that are sometimes short or
// empty (answers.go); with Lag and Flap they omit instances, or show old states (sight.go). A role may do what its
// policies allow (authorize.go, access*.go, the package policy), and its trust policy determines who may assume it
// (sts.go, podidentity.go).
//
// Tests control it through the admin endpoint under /_sandbox/ (or the methods of Simulator): they make calls slow,
// fail or lose their response, read which calls were made, and query what is left of a cluster.
//
// It never responds to an unknown action with success, and it never verifies signatures of requests: only the access
// key identifies a caller, and one without a role is an administrator's. Tokens of ServiceAccounts are verified.
//
// A request passes through one file after another: route.go (which service, action and principal), fault.go and
// authorize.go (does it fail, is it allowed), then the action in the file named after its resource, and call.go (what
// was done). An action is a method of account, which contains all state and is guarded by the simulator's mutex;
// actions never block and never take locks.
//
// CloudFormation is the exception: it continues after its response (stack_operation.go), whether its caller still runs or
// not, and calls the other services with the caller's permissions, so that denials and faults apply to each resource of a
// stack (stack_resource.go lists the types).
package awssim
