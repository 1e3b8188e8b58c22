package cluster

// ReadNodeClaim is for tests.
var ReadNodeClaim = readNodeClaim
