package install

import "github.com/plumbline-dev/plumbline/reconcile/finding"

// installedAs says whether the charts are known to be installed as Git says, and
// to stand. What another client changes again and again is corrected at the pace of
// retries: each time costs a revision of the release.
func (s *Step) installedAs(identity, fingerprint string) bool {
	if s.Memory.installed != identity || len(s.Memory.fought) > 0 && s.Insist {
		return false
	}
	if s.Memory.fingerprint == fingerprint {
		return true
	}
	if !s.Insist && !finding.Due(s.Now, s.Memory.repairedAt, s.Retry) {
		s.WakeBy(s.Memory.repairedAt.Add(s.Retry))
		return true
	}
	return false
}
