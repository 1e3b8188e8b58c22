package source

import (
	"context"
	"net"
	"sync/atomic"
)

// line connects with a host, and counts what comes from it.
type line struct {
	dir      string // for a file that a library wants to read
	received atomic.Int64
}

func (l *line) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &metered{Conn: conn, received: &l.received}, nil
}

// metered is a connection that counts.
type metered struct {
	net.Conn
	received *atomic.Int64
}

func (m *metered) Read(p []byte) (int, error) {
	n, err := m.Conn.Read(p)
	m.received.Add(int64(n))
	return n, err
}
