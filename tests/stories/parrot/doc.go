// Package parrot is a host that repeats what it was sent: its error contains every credential of the request, in every
// encoding.
package parrot
