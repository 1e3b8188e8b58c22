package observe

// ReadNodeClaim is for tests.
var ReadNodeClaim = readNodeClaim
