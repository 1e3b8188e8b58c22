// Package parrot is a host that repeats what it was sent: every credential of a request comes
// back in its error, in every encoding.
package parrot
