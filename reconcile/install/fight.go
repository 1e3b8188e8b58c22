package install

import "github.com/plumbline-dev/plumbline/provision/charts/release"

// noteFight notes what a chart made, and another client changes again and again. It is
// left as it is, and all else goes on.
func (s *Step) noteFight(result release.Result) {
	if len(result.Paused) == 0 {
		return
	}
	s.out.Fought = append(s.out.Fought, result.Paused...)
	s.Memory.repairedAt = s.Now // looked at no more often than it would be corrected
}
