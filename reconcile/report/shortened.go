package report

import "io"

// shortened reads JSON, and truncates each string after most bytes: the author of a pull request writes its
// description, as long as the host allows, which must not prevent plumbline from reading the rest of the list.
type shortened struct {
	from io.Reader
	most int
	// within reports whether the reader is inside a string, kept the bytes kept of it, and cut whether the current
	// character is dropped.
	within, cut bool
	kept        int
	// escape is the number of bytes that remain of the current escape; -1 if only its backslash was read.
	escape int
}

func (s *shortened) Read(p []byte) (int, error) {
	for {
		n, err := s.from.Read(p)
		kept := p[:0]
		for _, b := range p[:n] {
			if s.keeps(b) {
				kept = append(kept, b)
			}
		}
		if len(kept) > 0 || err != nil || len(p) == 0 {
			return len(kept), err
		}
	}
}

// keeps reports whether the next byte is kept.
func (s *shortened) keeps(b byte) bool {
	switch {
	case !s.within:
		s.within, s.kept = b == '"', 0
		return true
	case s.escape < 0:
		if s.escape = 0; b == 'u' {
			s.escape = 4
		}
	case s.escape > 0:
		s.escape--
	case b == '"':
		s.within = false
		return true
	default:
		if s.cut = s.kept >= s.most; b == '\\' {
			s.escape = -1
		}
	}
	if !s.cut {
		s.kept++
	}
	return !s.cut
}
