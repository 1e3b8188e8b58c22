// Package binaries builds the unmodified programs that a sandbox runs, from
// Go modules alone, once for each version.
//
// Each has a module of its own under tests/sandbox/bin, but three of Flux's that share one, so that its
// dependencies meet nobody else's. A built file lies in the cache under a key
// made of that module's files, the Go version and the flags: the same key is
// the same program, and a second sandbox, or a second run of the tests, finds
// it there. Two processes that want the same program at once build it once.
//
// Nothing is downloaded but modules, by the go command, as its environment
// says.
package binaries
