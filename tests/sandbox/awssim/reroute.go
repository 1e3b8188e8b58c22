package awssim

import "net/http"

// Reroute has calls made with an access key answered by another account from now
// on, as when somebody gives a service the credentials of the wrong one. Nil
// ends it. The other account's log has the calls.
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

// answerer is the account that a request belongs to.
func (s *Simulator) answerer(r *http.Request) *Simulator {
	signed, err := parseScope(r)
	if err != nil {
		return s // which says what is wrong with it
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if other, ok := s.reroutes[signed.accessKey]; ok {
		return other
	}
	return s
}
