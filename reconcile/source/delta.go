package source

import "math"

// deltaHead keeps the beginning of a delta: the sizes of what it is applied to
// and of what it makes, each in groups of seven bits, the lowest first.
// https://git-scm.com/docs/pack-format
type deltaHead struct {
	kept [20]byte
	n    int
}

func (d *deltaHead) Write(p []byte) (int, error) {
	d.n += copy(d.kept[d.n:], p)
	return len(p), nil
}

// result is the size of what the delta makes.
func (d *deltaHead) result() int64 {
	_, rest := sevens(d.kept[:d.n])
	size, _ := sevens(rest)
	if size > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(size)
}

func sevens(b []byte) (n uint64, rest []byte) {
	for i, c := range b {
		n |= uint64(c&0x7f) << (7 * i)
		if c&0x80 == 0 {
			return n, b[i+1:]
		}
	}
	return n, nil
}
