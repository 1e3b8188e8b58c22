package report

import "io"

// shortened reads JSON, and leaves out the rest of each string after so many bytes: who opens a pull request writes its description, as
// long as the host takes it, and it must not keep the others of the list from being read.
type shortened struct {
	from io.Reader
	most int
	// within reports whether a string is read, kept how many bytes of it, and cut whether the character that is read is left out.
	within, cut bool
	kept        int
	// escape is how many bytes the escape that is read has to come; -1 if only its backslash was read.
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
