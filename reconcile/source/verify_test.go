package source_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/source"
	"github.com/plumbline-dev/plumbline/reconcile/source/signature"
)

// signed is a host whose commits are signed with ssh-keygen.
type signed struct {
	*host
	client *client
	key    string // the private key's file
	keys   signature.Keys
	trees  int
	// verified is the last commit that was verified.
	verified string
}

func newSigned(t *testing.T) *signed {
	t.Helper()
	h := newHost(t)
	key := filepath.Join(t.TempDir(), "key")
	if out, err := exec.CommandContext(t.Context(), "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key).CombinedOutput(); err != nil {
		t.Fatalf("ssh-keygen: %v: %s", err, out)
	}
	public, err := os.ReadFile(key + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	keys, err := signature.KeysFromSecret("signers", map[string][]byte{"alice.sshpub": public})
	if err != nil {
		t.Fatal(err)
	}
	return &signed{host: h, client: newClient(t, h.url, source.Options{}), key: key, keys: keys}
}

func (s *signed) git(t *testing.T, input string, args ...string) string {
	t.Helper()
	identity := []string{"-c", "user.name=A", "-c", "user.email=a@example.com", "-c", "gpg.format=ssh", "-c", "user.signingkey=" + s.key}
	return strings.TrimSpace(git(t, s.repository, input, append(identity, args...)...))
}

// push makes a commit on some others, signed or not, and points main at it.
func (s *signed) push(t *testing.T, sign bool, parents ...string) string {
	t.Helper()
	made := s.make(t, sign, parents...)
	git(t, s.repository, "", "update-ref", "refs/heads/main", made)
	return made
}

func (s *signed) make(t *testing.T, sign bool, parents ...string) string {
	t.Helper()
	s.trees++
	blob := s.git(t, fmt.Sprint(s.trees), "hash-object", "-w", "--stdin")
	tree := s.git(t, "100644 blob "+blob+"\tpool.yaml\n", "mktree")
	args := []string{"commit-tree", tree, "-m", "pools"}
	for _, p := range parents {
		args = append(args, "-p", p)
	}
	if sign {
		args = append(args, "-S")
	}
	return s.git(t, "", args...)
}

// restart forgets all fetches.
func (s *signed) restart(t *testing.T) {
	t.Helper()
	s.client = newClient(t, s.url, source.Options{})
}

// verify fetches and verifies what is new.
func (s *signed) verify(t *testing.T, mode v1alpha1.VerificationMode, ref v1alpha1.GitRef) (source.Verified, error) {
	t.Helper()
	at := s.client.mustFetch(t, ref)
	found, err := s.client.git.Verify(t.Context(), s.client.request, source.Signatures{Mode: mode, Commit: at.Commit, Since: s.verified, Newest: s.verified, Keys: s.keys, Now: time.Now()})
	if err == nil {
		s.verified = at.Commit
	}
	return found, err
}

func (s *signed) passes(t *testing.T, mode v1alpha1.VerificationMode, ref v1alpha1.GitRef) source.Verified {
	t.Helper()
	found, err := s.verify(t, mode, ref)
	if err != nil || !strings.HasPrefix(found.Signer, "alice.sshpub (SSH SHA256:") {
		t.Fatalf("Verify() = %+v, %v", found, err)
	}
	return found
}

func (s *signed) fails(t *testing.T, mode v1alpha1.VerificationMode, ref v1alpha1.GitRef, want string) {
	t.Helper()
	if found, err := s.verify(t, mode, ref); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("Verify() = %+v, %v, want %q", found, err, want)
	}
}

var main = v1alpha1.GitRef{Branch: "main"}

func TestVerifyHEAD(t *testing.T) {
	s := newSigned(t)
	first := s.push(t, true)
	s.passes(t, v1alpha1.VerifyHEAD, main)
	bad := s.push(t, false, first)
	s.fails(t, v1alpha1.VerifyHEAD, main, "commit "+bad[:12]+" is not signed")
	// A signature is for one commit: the host's replacement is another commit.
	git(t, s.repository, "", "replace", bad, first)
	s.restart(t)
	s.fails(t, v1alpha1.VerifyHEAD, main, "commit "+bad[:12]+" is not signed")
	good := s.push(t, true, bad)
	s.passes(t, v1alpha1.VerifyHEAD, main)
	// The signature of one commit in another one.
	moved := strings.Replace(git(t, s.repository, "", "cat-file", "commit", good), "\n\npools", "\n\nother pools", 1)
	git(t, s.repository, "", "update-ref", "refs/heads/main", s.git(t, moved, "hash-object", "-t", "commit", "-w", "--stdin"))
	s.fails(t, v1alpha1.VerifyHEAD, main, "is not what was signed with SSH key")
}

func TestVerifyRange(t *testing.T) {
	s := newSigned(t)
	root := s.push(t, false)
	first := s.push(t, true, root)
	if found := s.passes(t, v1alpha1.VerifyRange, main); !found.Follows {
		t.Error("the first revision counts as older than another")
	}
	bad := s.make(t, false, first)
	s.push(t, true, bad)
	s.fails(t, v1alpha1.VerifyRange, main, "commit "+bad[:12]+" is not signed")
	s.restart(t)
	s.fails(t, v1alpha1.VerifyRange, main, "commit "+bad[:12]+" is not signed")
	// A merge includes both sides.
	good := s.make(t, true, first)
	s.push(t, true, good, bad)
	s.fails(t, v1alpha1.VerifyRange, main, "commit "+bad[:12]+" is not signed")
	merge := s.push(t, true, good, s.make(t, true, first))
	if found := s.passes(t, v1alpha1.VerifyRange, main); !found.Follows {
		t.Error("a merge counts as older than what it merges")
	}
	// Reset: signed commits were verified before, and unsigned ones still fail.
	git(t, s.repository, "", "update-ref", "refs/heads/main", good)
	if found := s.passes(t, v1alpha1.VerifyRange, main); found.Follows {
		t.Error("an ancestor counts as newer")
	}
	s.verified = merge
	git(t, s.repository, "", "update-ref", "refs/heads/main", root)
	s.fails(t, v1alpha1.VerifyRange, main, "commit "+root[:12]+" is not signed")
	// Rebased onto a known commit.
	s.push(t, true, s.make(t, true, first))
	s.passes(t, v1alpha1.VerifyRange, main)
	// Another repository of the same signers.
	s.push(t, true, s.push(t, true))
	s.fails(t, v1alpha1.VerifyRange, main, "HEAD has another history")
	s.restart(t)
	s.fails(t, v1alpha1.VerifyRange, main, "it is not among the commits before HEAD")
}

// Commits missed during a restart are fetched, in two steps.
func TestVerifyRangeAfterARestart(t *testing.T) {
	s := newSigned(t)
	at := s.push(t, true)
	s.passes(t, v1alpha1.VerifyRange, main)
	bad := ""
	for i := range 80 {
		at = s.make(t, i != 3, at)
		if i == 3 {
			bad = at
		}
	}
	git(t, s.repository, "", "update-ref", "refs/heads/main", at)
	s.restart(t)
	packs := s.packs.Load()
	s.fails(t, v1alpha1.VerifyRange, main, "commit "+bad[:12]+" is not signed")
	if n := s.packs.Load() - packs; n > 3 {
		t.Errorf("%d packs were asked for", n)
	}
	s.verified = bad
	s.restart(t)
	s.passes(t, v1alpha1.VerifyRange, main)
}

func TestVerifyRangeIsBounded(t *testing.T) {
	s := newSigned(t)
	first := s.push(t, true)
	s.passes(t, v1alpha1.VerifyRange, main)
	var stream bytes.Buffer
	for i := range 1001 {
		stream.WriteString(s.stream("main", map[bool]string{true: "from " + first + "\n"}[i == 0], nil))
	}
	git(t, s.repository, stream.String(), "fast-import", "--quiet", "--force")
	s.push(t, true, "refs/heads/main")
	s.fails(t, v1alpha1.VerifyRange, main, "there are more than 1000")
	s.restart(t)
	s.fails(t, v1alpha1.VerifyRange, main, "there are more than 1000")
	s.push(t, true, s.git(t, "tree "+strings.TrimSpace(git(t, s.repository, "", "rev-parse", first+"^{tree}"))+"\nparent "+first+"\nauthor A <a> 1 +0000\ncommitter A <a> 1 +0000\n\n"+strings.Repeat("x", 2<<20), "hash-object", "-t", "commit", "-w", "--stdin"))
	_, err := s.verify(t, v1alpha1.VerifyRange, main)
	var large *source.LimitError
	if !errors.As(err, &large) {
		t.Errorf("a commit of 2 MiB: %v", err)
	}
}

func TestVerifyTag(t *testing.T) {
	s := newSigned(t)
	at := s.push(t, false)
	v1, v2 := v1alpha1.GitRef{Tag: "v1.0.0"}, v1alpha1.GitRef{Name: "refs/tags/v2.0.0"}
	s.git(t, "", "tag", "v1.0.0", at)
	s.fails(t, v1alpha1.VerifyTag, v1, "tag v1.0.0 is not an annotated tag")
	s.git(t, "", "tag", "-f", "-a", "-m", "r", "v1.0.0", at)
	s.fails(t, v1alpha1.VerifyTag, v1, "tag v1.0.0 is not signed")
	s.git(t, "", "tag", "-f", "-s", "-m", "r", "v1.0.0", at)
	s.passes(t, v1alpha1.VerifyTag, v1)
	s.passes(t, v1alpha1.VerifyTag, v1alpha1.GitRef{SemVer: ">=1.0.0"})
	// A tag under the name of another, and a tag of a tag.
	git(t, s.repository, "", "update-ref", "refs/tags/v2.0.0", "refs/tags/v1.0.0")
	s.fails(t, v1alpha1.VerifyTag, v2, `tag v2.0.0 was made and signed as "tag v1.0.0"`)
	s.git(t, "", "tag", "-f", "-s", "-m", "r", "v2.0.0", "v1.0.0")
	s.fails(t, v1alpha1.VerifyTag, v2, "names another")
	s.git(t, "", "tag", "-f", "-s", "-m", "r", "v2.0.0", s.push(t, false, at))
	s.passes(t, v1alpha1.VerifyTag, v2)
	s.fails(t, v1alpha1.VerifyTag, main, "reference main is not an annotated tag")
}

// A Snapshot that is no longer the newest is not verified.
func TestVerifyOfWhatIsGone(t *testing.T) {
	s := newSigned(t)
	first := s.push(t, true)
	s.client.mustFetch(t, main)
	s.push(t, true, first)
	s.client.mustFetch(t, main)
	_, err := s.client.git.Verify(t.Context(), s.client.request, source.Signatures{Mode: v1alpha1.VerifyHEAD, Commit: first, Keys: s.keys, Now: time.Now()})
	var stale *source.StaleError
	if !errors.As(err, &stale) {
		t.Errorf("Verify() of a former Snapshot = %v", err)
	}
}
