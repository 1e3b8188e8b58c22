// Package binaries builds the unmodified programs that a sandbox runs, only from Go modules, once for each version.
//
// Each has its own module under tests/sandbox/bin, except three of Flux's that share one, so that its dependencies do
// not affect others. The older Kubernetes has only a go.mod, and the sources of the newer one. A built file is in the
// cache under a key made of that module's files, the Go version and the flags: the same key is the same program, and a
// second sandbox, or a second run of the tests, finds it there. Two processes that want the same program at the same time
// build it once.
//
// Only modules are downloaded, by the go command, according to its environment.
package binaries
