package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/plumbline-dev/plumbline/reconcile/promotion"
	"github.com/plumbline-dev/plumbline/reconcile/source/signature"
)

const fleetRings = `# the fleet
apiVersion: config.plumbline.dev/v1alpha1
kind: Rings
clusters: [{name: dev}, {name: eu}]
rings:
- {name: canary, clusters: [dev]}
- {name: prod, clusters: [eu], soak: 1h}
`

// fleetRepo is a bare repository with records, and a clone.
type fleetRepo struct {
	*testing.T
	bare, clone, key string
	signer           signature.Signer
}

// run runs git, or another program, in a folder.
func (r *fleetRepo) run(folder, input, program string, args ...string) string {
	r.Helper()
	cmd := exec.CommandContext(r.Context(), program, args...)
	cmd.Dir, cmd.Stdin = folder, strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.Fatalf("%s %v: %v: %s", program, args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func newFleetRepo(t *testing.T) *fleetRepo {
	t.Helper()
	config := filepath.Join(t.TempDir(), "gitconfig")
	if err := os.WriteFile(config, []byte("[user]\nname = T\nemail = t@example.com\n[init]\ndefaultBranch = main\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GIT_CONFIG_GLOBAL", config)
	t.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	dir := t.TempDir()
	r := &fleetRepo{T: t, bare: filepath.Join(dir, "fleet.git"), clone: filepath.Join(dir, "clone"), key: filepath.Join(dir, "key")}
	r.run(dir, "", "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", r.key)
	text, err := os.ReadFile(r.key)
	if err != nil {
		t.Fatal(err)
	}
	if r.signer, err = signature.NewSigner(text, nil); err != nil {
		t.Fatal(err)
	}
	r.run(dir, "", "git", "init", "-q", "--bare", r.bare)
	r.run(dir, "", "git", "clone", "-q", r.bare, r.clone)
	r.run(r.clone, "", "git", "config", "gpg.format", "ssh")
	r.run(r.clone, "", "git", "config", "user.signingkey", r.key)
	return r
}

// commit commits and pushes rings.yaml, and another file with the message.
func (r *fleetRepo) commit(message, rings string) string {
	r.Helper()
	for name, text := range map[string]string{promotion.File: rings, "nodes.yaml": message} {
		if err := os.WriteFile(filepath.Join(r.clone, name), []byte(text), 0o600); err != nil {
			r.Fatal(err)
		}
	}
	r.run(r.clone, "", "git", "add", ".")
	r.run(r.clone, "", "git", "commit", "-q", "-m", message)
	r.run(r.clone, "", "git", "push", "-q", "origin", "main")
	return r.run(r.clone, "", "git", "rev-parse", "HEAD")
}

// reports writes the record of a cluster into the bare repository.
func (r *fleetRepo) reports(ref, cluster string, at time.Time, v ...promotion.Verdict) {
	r.Helper()
	data, err := promotion.Record{Cluster: cluster, NodeSync: cluster, Serial: at.Unix(), At: at, Verdicts: v}.Commit(r.signer.Sign)
	if err != nil {
		r.Fatal(err)
	}
	r.run(r.bare, "", "git", "hash-object", "-t", "tree", "-w", "/dev/null")
	hash := r.run(r.bare, string(data), "git", "hash-object", "-t", "commit", "-w", "--stdin")
	r.run(r.bare, "", "git", "update-ref", ref, hash)
}

// fleet runs the command, and returns what it prints and its exit code.
func (r *fleetRepo) fleet(now time.Time, args ...string) (string, int) {
	r.Helper()
	var out, errs bytes.Buffer
	cmd := newFleetCommand(func() time.Time { return now })
	cmd.SetOut(&out)
	cmd.SetErr(&errs)
	cmd.SetArgs(append(args, "--repo", r.clone))
	err := cmd.ExecuteContext(r.Context())
	var exit *exitError
	switch {
	case errors.As(err, &exit):
		return out.String(), exit.code
	case err != nil:
		return out.String() + errs.String() + err.Error(), exitFailed
	}
	return out.String() + errs.String(), exitDone
}

// TestFleet shows a fleet from a clone, with and without the clusters' keys, and pauses a ring.
func TestFleet(t *testing.T) {
	r := newFleetRepo(t)
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	a := r.commit("first", fleetRings)
	b := r.commit("raise the AMI", fleetRings)
	effect := promotion.Effect{Kind: promotion.KindImage, Nodes: 3, Of: 10}
	good := func(commit string, ago time.Duration) promotion.Verdict {
		return promotion.Verdict{Commit: commit, State: promotion.Succeeded, Since: now.Add(-ago), Effect: effect}
	}
	r.reports("refs/plumbline/dev/dev", "dev", now, good(b, 10*time.Minute), good(a, time.Hour))
	r.reports("refs/heads/plumbline/records/eu/eu", "eu", now, good(a, time.Hour))
	out, code := r.fleet(now)
	for _, want := range []string{"raise the AMI", "signatures of records are not verified", "soaks in ring canary until 2026-11-30 12:50 UTC", a[:7], b[:7]} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
	if code != exitChanges {
		t.Errorf("exit code %d", code)
	}
	sync := filepath.Join(t.TempDir(), "nodesync.yaml")
	text := "apiVersion: plumbline.dev/v1alpha1\nkind: NodeSync\nmetadata: {name: eu}\nspec:\n  promotion:\n    cluster: eu\n    ring: prod\n    minSoak: 3h\n    clusters:\n" +
		"    - {name: dev, keys: [\"" + r.signer.Public() + "\"]}\n"
	if err := os.WriteFile(sync, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, code = r.fleet(now, "--nodesync", sync, "-o", "json")
	for _, want := range []string{`"verified": true`, `"silent": true`, "spec.promotion has no public key of the cluster"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
	if code != exitStalled {
		t.Errorf("exit code %d", code)
	}
	for _, as := range []string{"yaml", "markdown", "html"} {
		if out, _ := r.fleet(now, "-o", as); !strings.Contains(out, "raise the AMI") || !strings.Contains(out, "canary") {
			t.Errorf("as %s:\n%s", as, out)
		}
	}
	if out, code := r.fleet(now, "pause", "prod", "--reason", "incident 42"); code != exitDone || !strings.Contains(out, "pushed to main") {
		t.Fatal(out, code)
	}
	if out := r.run(r.bare, "", "git", "cat-file", "commit", "main"); !strings.Contains(out, "gpgsig") || !strings.Contains(out, "Pause ring prod\n\nincident 42") {
		t.Errorf("the commit is\n%s", out)
	}
	if out, _ := r.fleet(now); !strings.Contains(out, "prod (paused: incident 42)") {
		t.Errorf("the pause is not shown:\n%s", out)
	}
	if out, code := r.fleet(now, "pause", "prod", "--reason", "incident 42"); code != exitDone || !strings.Contains(out, "nothing to do") {
		t.Error(out, code)
	}
	if out, code := r.fleet(now, "resume", "prod"); code != exitDone {
		t.Fatal(out, code)
	}
	if got := r.run(r.bare, "", "git", "show", "main:"+promotion.File); got != strings.TrimSpace(fleetRings) {
		t.Errorf("rings.yaml is now\n%s", got)
	}
	for name, args := range map[string][]string{
		"no reason": {"pause", "prod"}, "an empty reason": {"pause", "prod", "--reason", " "}, "no such ring": {"pause", "staging", "--reason", "x"},
		"no such branch": {"--branch", "none"}, "no NodeSync": {"--nodesync", filepath.Join(r.clone, promotion.File)},
	} {
		if out, code := r.fleet(now, args...); code != exitFailed {
			t.Errorf("%s: exit code %d\n%s", name, code, out)
		}
	}
}
