// Package signature verifies the signatures of Git commits and tags.
//
// The bytes of a commit or a tag, as Git stores them, the public keys of a Secret
// and a time go in; who has signed it, or an *Error that says what is missing, comes
// out. Signatures are OpenPGP's, and SSH's in the namespace "git".
//
// It reads objects by itself and strictly: what a signature does not cover is never
// taken for content. It does no I/O, and never repeats what stands in a Secret.
package signature
