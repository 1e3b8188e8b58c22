package upgrade

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Masterminds/semver/v3"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/rollout"
)

var update = flag.Bool("update", false, "rewrite the scripts' answers under testdata")

// TestScripts runs scripts: each contains what a reconcile observes and, below ----, what it does and the resulting
// state of the charts.
//
//	installed VERSION|nothing   start
//	lost                        the status is lost
//	want VERSION                what is in Git from now on
//	after DURATION              let time pass
//	pass WORD…                  one reconcile; what is not mentioned is as it should be
//	settled                     and all definitions are Ready at its end
//	expected POOL…|nothing      whose nodes the change may replace, as far as known
//	wanted POOL…                a commit replaces their nodes
//	node NODECLAIM POOL         it is created
//	drifts NODECLAIM POOL       Karpenter considers it drifted from now on
//	steady NODECLAIM            and no longer
//	ends NODECLAIM              it is being deleted
//	gone NODECLAIM              it no longer exists
//
// The words of pass: refused (by a gate), no-way-back, approved, unmigrated, stuck-migration, establishing, starting
// (the rollout is not complete), one-leads (one replica of it is ready and leads), uninstalled (the previous release no
// longer exists), again.
func TestScripts(t *testing.T) {
	scripts, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, path := range scripts {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			script, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			played := play(t, string(script))
			if *update {
				if err := os.WriteFile(path, []byte(played), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(script), played); diff != "" {
				t.Errorf("script (-want +got):\n%s", diff)
			}
		})
	}
}

// player is a cluster with the charts.
type player struct {
	status v1alpha1.KarpenterStatus
	want   Want
	now    time.Time
	// revisions of the two releases, and the version of the controller.
	crds, controller int32
	running          string
	expected         []string
	// earlier is the previous release in Helm's history.
	earlier *v1alpha1.ReleaseStatus
	claims  []cluster.Claim
}

// play keeps the lines of a script and adds the results of its reconciles.
func play(t *testing.T, script string) string {
	t.Helper()
	p := &player{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	var out strings.Builder
	answered := false
	for line := range strings.SplitSeq(strings.TrimSuffix(script, "\n"), "\n") {
		switch {
		case line == "----":
			answered = true
		case answered && line != "":
		default:
			answered = false
			out.WriteString(line + "\n")
			out.WriteString(p.act(t, line))
		}
	}
	return out.String()
}

func (p *player) act(t *testing.T, line string) string {
	t.Helper()
	words := strings.Fields(line)
	if len(words) == 0 || words[0] == "#" {
		return ""
	}
	switch words[0] {
	case "installed":
		p.status = v1alpha1.KarpenterStatus{}
		if v := words[1]; v != "nothing" {
			p.crds, p.controller, p.running = 1, 1, v
			p.status.Version, p.status.Identity = v, "identity of "+v
			p.status.CRDs, p.status.Controller = p.release(p.crds, v), p.release(p.controller, v)
		}
	case "lost":
		p.status = v1alpha1.KarpenterStatus{}
	case "want":
		p.want = Want{Version: words[1], Identity: "identity of " + words[1]}
	case "after":
		d, err := time.ParseDuration(words[1])
		if err != nil {
			t.Fatal(err)
		}
		p.now = p.now.Add(d)
	case "expected":
		p.expected = nil
		if words[1] != "nothing" {
			p.expected = words[1:]
		}
	case "wanted":
		p.status = rollout.Expect(p.status, words[1:])
	case "node", "drifts", "ends", "steady", "gone":
		p.node(words)
	case "pass", "settled":
		return p.pass(t, words)
	default:
		t.Fatalf("unknown line %q", line)
	}
	return ""
}

// node changes a NodeClaim, and creates it if it does not exist.
func (p *player) node(words []string) {
	i := slices.IndexFunc(p.claims, func(c cluster.Claim) bool { return c.NodeClaim == words[1] })
	if i < 0 {
		i = len(p.claims)
		p.claims = append(p.claims, cluster.Claim{NodeClaim: words[1], Pool: words[2], Created: metav1.NewTime(p.now)})
	}
	switch c := &p.claims[i]; words[0] {
	case "drifts":
		c.Drifted, c.Since = "NodePoolDrifted", metav1.NewTime(p.now)
	case "ends":
		c.Terminating = true
	case "steady":
		c.Drifted = ""
	case "gone":
		p.claims = slices.Delete(p.claims, i, i+1)
	}
}

func (p *player) release(revision int32, version string) *v1alpha1.ReleaseStatus {
	return &v1alpha1.ReleaseStatus{Revision: revision, Version: version, Digest: "sha256:" + version}
}

// pass does what the reconciler does.
func (p *player) pass(t *testing.T, words []string) string {
	t.Helper()
	said := map[string]bool{}
	for _, word := range words[1:] {
		said[word] = true
	}
	s := Seen{
		ExpectedPools: p.expected, Approved: said["approved"], Migrated: !said["unmigrated"], Again: said["again"],
		Established: cluster.Readiness{Ready: !said["establishing"], Message: "a CRD is not Established yet"},
		Rollout:     cluster.Readiness{Ready: !said["starting"], Message: "0 of 2 replicas"},
	}
	if said["no-way-back"] {
		s.RollbackBlockers = "no way back"
	}
	out := "----\n"
	for range 20 {
		before := p.status.DeepCopy()
		next, action := Next(p.status, p.want, s, p.now, 2*time.Minute)
		if diff := cmp.Diff(*before, p.status); diff != "" {
			t.Fatalf("Next has changed what it was given:\n%s", diff)
		}
		p.status = next
		if !p.do(action, &s, said) {
			var unexpected []cluster.Claim
			p.status, unexpected = rollout.Drifted(p.status, p.claims, []string{"batch", "general"}, p.now)
			p.status = Settle(p.status, cluster.Readiness{Ready: words[0] == "settled"})
			return out + p.describe(action) + describeDrift(p.status, unexpected)
		}
		out += "  " + action.String() + "\n"
	}
	t.Fatal("it never ends")
	return ""
}

// do reports whether to call Next again.
func (p *player) do(action Action, s *Seen, said map[string]bool) bool {
	switch action.(type) {
	case Check:
		s.Checked, s.Claims = !said["refused"], slices.Clone(p.claims)
		return s.Checked
	case Migrate:
		s.Migrated = !said["stuck-migration"]
		return s.Migrated
	case InstallCRDs:
		s.CRDs = p.status.CRDs
		if s.CRDs == nil || semver.MustParse(s.CRDs.Version).LessThan(semver.MustParse(p.want.Version)) {
			p.crds++
			s.CRDs = p.release(p.crds, p.want.Version)
		}
		return true
	case InstallController:
		if p.running != p.want.Version {
			if p.running != "" {
				p.earlier = p.release(p.controller, p.running)
			}
			p.controller++
			p.running, s.Rollout.Ready = p.want.Version, false
		}
		s.Controller = p.release(p.controller, p.want.Version)
		return true
	case Diagnose:
		if said["one-leads"] {
			s.Rollout = cluster.Readiness{Ready: true, Message: "1 of 2 replicas"}
		}
		s.Cause = "pod karpenter-1 exits with 1"
		return true
	case FindEarlier:
		s.Searched, s.Earlier = true, p.earlier
		return true
	case RollBack:
		if said["uninstalled"] {
			s.Lost, p.running = true, ""
			return true
		}
		if p.running != p.status.Version {
			p.controller++
			p.running = p.status.Version
		}
		s.RolledBack, s.Claims = p.release(p.controller, p.running), slices.Clone(p.claims)
		return true
	}
	return false
}

func (p *player) describe(last Action) string {
	out := "  " + last.String() + "\n"
	inForce := "nothing in force"
	if c := p.status.Controller; c != nil {
		inForce = fmt.Sprintf("%s in force (revision %d)", p.status.Version, c.Revision)
	}
	if c := p.status.CRDs; c != nil {
		inForce += ", CRDs " + c.Version
	}
	if t := p.status.Target; t != nil {
		return out + fmt.Sprintf("%s, %s to %s\n", inForce, t.Step, t.Version)
	}
	return out + inForce + "\n"
}

// describeDrift describes a watch that has found something, or ends.
func describeDrift(k v1alpha1.KarpenterStatus, found []cluster.Claim) string {
	var out strings.Builder
	for _, d := range found {
		fmt.Fprintf(&out, "drifted unexpectedly since %s: %s of %s\n", k.NodeDrift.From, d.NodeClaim, d.Pool)
	}
	return out.String()
}
