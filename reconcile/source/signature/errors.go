package signature

import "fmt"

// Error says why a commit or a tag is not verified.
type Error struct {
	// Object is the commit or the tag, as people name it.
	Object string
	// Problem completes the sentence that Object begins, and Remedy says what to do.
	Problem, Remedy string
}

// Error names the object, the problem and the remedy.
func (e *Error) Error() string {
	if e.Remedy == "" {
		return e.Object + " " + e.Problem
	}
	return fmt.Sprintf("%s %s: %s", e.Object, e.Problem, e.Remedy)
}

// KeysError says that a Secret has no key that could verify anything.
type KeysError struct {
	Secret, Reason string
}

// Error names the Secret and says what belongs there.
func (e *KeysError) Error() string {
	return fmt.Sprintf("secret %s has no key of a signer: %s: add public keys, one entry each: armored OpenPGP in NAME.asc, SSH in NAME.sshpub", e.Secret, e.Reason)
}
