// Package signature verifies the signatures of Git commits and tags.
//
// The input is a commit or tag as Git stores it, the public keys of a Secret, and a time. The output is the signer, or
// an *Error that says what is missing. Signatures are OpenPGP's, and SSH's in the namespace "git".
//
// The package parses objects itself, and strictly: it never treats anything that a signature does not cover as content.
// It does no I/O, and never repeats the content of a Secret.
package signature
