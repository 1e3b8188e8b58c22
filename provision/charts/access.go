package charts

import (
	"context"
	"io/fs"
)

// Access is what repositories are opened with. The zero value opens public ones.
type Access struct {
	// Keys open hosts. It is called when a host is about to be asked, and so never
	// for charts in the cache. Nil: all requests are anonymous.
	Keys Keys
	// Files are the checkout that a path is read from.
	Files fs.FS
}

// Keys return what opens a host, named as in its URL: with the port where that
// has one.
type Keys func(ctx context.Context, host string) (Credentials, error)

// Credentials open one host, and are sent to no other. The zero value is anonymous.
type Credentials struct {
	Username, Password string
	// CA is a PEM bundle that is trusted beside the system's.
	CA []byte
	// Origin names, in messages, what they were read from: "secret mirror".
	Origin string
}

// same says whether two open the same account.
func (c Credentials) same(other Credentials) bool {
	return c.Username == other.Username && c.Password == other.Password
}

func (c Credentials) anonymous() bool { return c.Username == "" && c.Password == "" }
