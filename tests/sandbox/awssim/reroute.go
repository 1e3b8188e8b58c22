package awssim

import "net/http"

// Reroute makes another account answer the calls with an access key from now on, as if a service got the credentials of
// the wrong account. Nil ends it. The other account's log contains the calls.
func (s *Simulator) Reroute(accessKey string, to *Simulator) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if to == nil {
		delete(s.reroutes, accessKey)
		return
	}
	if s.reroutes == nil {
		s.reroutes = map[string]*Simulator{}
	}
	s.reroutes[accessKey] = to
}

// answerer returns the account that a request belongs to.
func (s *Simulator) answerer(r *http.Request) *Simulator {
	signed, err := parseScope(r)
	if err != nil {
		return s // which reports the error
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if other, ok := s.reroutes[signed.accessKey]; ok {
		return other
	}
	return s
}
