package promotion_test

import (
	"crypto/ed25519"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hiddeco/sshsig"
	gossh "golang.org/x/crypto/ssh"

	"github.com/plumbline-dev/plumbline/reconcile/promotion"
	"github.com/plumbline-dev/plumbline/reconcile/source/signature"
)

func TestVerdictsOfARecord(t *testing.T) {
	v := func(commit string, state promotion.State, nodes int) promotion.Verdict {
		return promotion.Verdict{Commit: commit, State: state, Effect: promotion.Effect{Nodes: nodes, Of: 10}}
	}
	r := promotion.Record{Cluster: "eu", NodeSync: "eu"}
	for i, one := range []promotion.Verdict{
		v("a", promotion.InProgress, 4), v("a", promotion.Succeeded, 0), v("a", promotion.Succeeded, 0), // drift was corrected
		v("b", promotion.InProgress, 2), v("c", promotion.InProgress, 1), v("c", promotion.Failed, 0), v("c", promotion.Succeeded, 0),
	} {
		r = r.Next(one, now.Add(time.Duration(i)*time.Minute))
	}
	want := []promotion.Verdict{
		{Commit: "c", State: promotion.Succeeded, Effect: promotion.Effect{Nodes: 2, Of: 10}, Since: now.Add(6 * time.Minute)},
		{Commit: "a", State: promotion.Succeeded, Effect: promotion.Effect{Nodes: 4, Of: 10}, Since: now.Add(time.Minute), Took: 60},
	}
	if d := cmp.Diff(want, r.Verdicts); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	if r.Serial != now.Add(6*time.Minute).Unix() || !r.At.Equal(now.Add(6*time.Minute)) {
		t.Errorf("serial %d of %s", r.Serial, r.At)
	}
	if again := r.Again(now); again.Serial != r.Serial+1 {
		t.Error("a clock that was set back makes an older serial")
	}
}

func TestThinnedRecord(t *testing.T) {
	r := promotion.Record{}
	for i := range 100 {
		state, kind := promotion.Succeeded, promotion.KindOther
		if i%2 == 0 {
			state = promotion.Failed
		}
		if i == 1 {
			kind = promotion.KindKarpenter
		}
		r = r.Next(promotion.Verdict{Commit: fmt.Sprint(i), State: state, Effect: promotion.Effect{Kind: kind, Nodes: 1, Of: 10}}, now.Add(time.Duration(i)*10*time.Second))
	}
	r = r.Next(promotion.Verdict{Commit: "last", State: promotion.Succeeded}, now.Add(5*time.Hour))
	failed, succeeded := 0, 0
	for _, v := range r.Verdicts {
		if v.State == promotion.Failed {
			failed++
		} else {
			succeeded++
		}
	}
	if failed != 50 || succeeded > 4 || r.Unlisted != nil {
		t.Errorf("%d failed and %d succeeded are listed; unlisted %q", failed, succeeded, r.Unlisted)
	}
	if r.Verdicts[0].Commit != "last" {
		t.Errorf("the newest verdict is %+v", r.Verdicts[0])
	}
	heavy := false
	for _, v := range r.Verdicts {
		heavy = heavy || v.State == promotion.Succeeded && v.Effect.Kind == promotion.KindKarpenter
	}
	if !heavy {
		t.Error("the effect of a dropped commit is lost")
	}
	for i := range 3 {
		r = r.Next(promotion.Verdict{Commit: fmt.Sprint("bad", i), State: promotion.Failed}, now.Add(6*time.Hour))
	}
	if diff := cmp.Diff([]string{"0", "2", "4"}, r.Unlisted); diff != "" {
		t.Errorf("unlisted, of the failed commits (-want +got):\n%s", diff)
	}
}

func TestPushDue(t *testing.T) {
	if at := promotion.PushDue(now, true, time.Hour); !at.Equal(now.Add(time.Minute)) {
		t.Errorf("a changed record is due at %s", at)
	}
	if at := promotion.PushDue(now, false, time.Hour); !at.Equal(now.Add(15 * time.Minute)) {
		t.Errorf("an unchanged record is due at %s", at)
	}
}

// signer signs records of a cluster.
type signer struct {
	gossh.Signer
}

// newSigner makes the same key for the same number.
func newSigner(t *testing.T, number byte) signer {
	t.Helper()
	seed := make([]byte, ed25519.SeedSize)
	seed[0] = number
	s, err := gossh.NewSignerFromKey(ed25519.NewKeyFromSeed(seed))
	if err != nil {
		t.Fatal(err)
	}
	return signer{s}
}

func (s signer) sign(payload []byte) (string, error) {
	sig, err := sshsig.Sign(strings.NewReader(string(payload)), s, sshsig.HashSHA512, "git")
	if err != nil {
		return "", err
	}
	return string(sshsig.Armor(sig)), nil
}

func (s signer) keys(t *testing.T, options string) signature.Keys {
	t.Helper()
	line := string(gossh.MarshalAuthorizedKey(s.PublicKey()))
	keys, err := signature.KeysFromSecret("keys", map[string][]byte{"allowed_signers": []byte("eu " + options + line)})
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

func (s signer) seal(t *testing.T, r promotion.Record) promotion.Envelope {
	t.Helper()
	data, err := r.Commit(s.sign)
	if err != nil {
		t.Fatal(err)
	}
	return promotion.Envelope{Hash: strings.Repeat("ab", 20), Data: data}
}

func TestRecords(t *testing.T) {
	eu, us := newSigner(t, 1), newSigner(t, 2)
	record := promotion.Record{
		Cluster: "eu", NodeSync: "eu", Serial: 7, At: now,
		Verdicts: []promotion.Verdict{{Commit: "a", State: promotion.Succeeded, Effect: promotion.Effect{Kind: promotion.KindImage, Nodes: 3, Of: 40}, Since: ago(time.Hour)}},
	}
	with := func(change func(r *promotion.Record)) promotion.Record {
		r := record
		change(&r)
		return r
	}
	cases := map[string]struct {
		envelope promotion.Envelope
		second   []promotion.Envelope
		missing  bool
		keys     *signature.Keys
		noKeys   bool
		seen     int64
		problem  string // empty if the record counts
		serial   int64
	}{
		"signed by the cluster":          {envelope: eu.seal(t, record), serial: 7},
		"the same as before":             {envelope: eu.seal(t, record), seen: 7, serial: 7},
		"newer at the second reference":  {envelope: eu.seal(t, record), second: []promotion.Envelope{eu.seal(t, with(func(r *promotion.Record) { r.Serial = 9 }))}, serial: 9},
		"older at the second reference":  {envelope: eu.seal(t, record), second: []promotion.Envelope{eu.seal(t, with(func(r *promotion.Record) { r.Serial = 5 }))}, serial: 7},
		"forged at the second reference": {envelope: eu.seal(t, record), second: []promotion.Envelope{us.seal(t, with(func(r *promotion.Record) { r.Serial = 9 }))}, serial: 7},
		"forged at the first reference":  {envelope: us.seal(t, record), second: []promotion.Envelope{eu.seal(t, record)}, serial: 7},
		"unreadable":                     {envelope: promotion.Envelope{Problem: "the reference points to something too large for a record"}, problem: "too large for a record"},
		"never reported":                 {missing: true, problem: "none"},
		"deleted":                        {missing: true, seen: 6, problem: "the record was deleted", serial: 6},
		"older than before":              {envelope: eu.seal(t, record), seen: 8, problem: "older than before (serial 7 after 8)", serial: 8},
		"signed by another cluster":      {envelope: us.seal(t, record), seen: 6, problem: "not signed by the cluster: it is signed with SSH key", serial: 6},
		"of another cluster":             {envelope: eu.seal(t, with(func(r *promotion.Record) { r.Cluster = "us" })), problem: "the record is that of us/eu"},
		"of another NodeSync":            {envelope: eu.seal(t, with(func(r *promotion.Record) { r.NodeSync = "batch" })), problem: "the record is that of eu/batch"},
		"from the future":                {envelope: eu.seal(t, with(func(r *promotion.Record) { r.At = now.Add(time.Hour) })), problem: "from the future"},
		"a clock a little ahead":         {envelope: eu.seal(t, with(func(r *promotion.Record) { r.At = now.Add(time.Minute) })), serial: 7},
		"changed after it was signed": {
			envelope: promotion.Envelope{Data: []byte(strings.Replace(string(eu.seal(t, record).Data), `"nodes":3`, `"nodes":0`, 1))},
			problem:  "not signed by the cluster: it is not what was signed",
		},
		"with a file": {
			envelope: promotion.Envelope{Data: []byte(strings.Replace(string(eu.seal(t, record).Data), "tree 4b", "tree 5b", 1))},
			problem:  "can be read in two ways",
		},
		"unsigned": {
			envelope: promotion.Envelope{Data: func() []byte {
				data, _ := record.Commit(func([]byte) (string, error) { return "", nil })
				return data
			}()},
			problem: "it is not signed",
		},
		"too large":                {envelope: promotion.Envelope{Data: make([]byte, promotion.MaxRecord+1)}, problem: "are the most"},
		"no object":                {envelope: promotion.Envelope{Data: []byte("x")}, problem: "not signed by the cluster"},
		"signed by a retired key":  {envelope: eu.seal(t, record), keys: ptr(eu.keys(t, `valid-before="20261101Z" `)), problem: "expired"},
		"of a cluster without key": {envelope: eu.seal(t, record), noKeys: true, seen: 6, problem: "has no public key"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			keys := map[promotion.Member]signature.Keys{of("eu"): eu.keys(t, "")}
			switch {
			case c.noKeys:
				keys = nil
			case c.keys != nil:
				keys[of("eu")] = *c.keys
			}
			envelopes := map[promotion.Member][]promotion.Envelope{of("eu"): append([]promotion.Envelope{c.envelope}, c.second...)}
			if c.missing {
				envelopes = nil
			}
			got, serials := promotion.Read(envelopes, keys, promotion.Serials{of("eu"): c.seen}, now)
			standing := got[of("eu")]
			switch {
			case c.problem == "none":
				if standing != (promotion.Standing{}) {
					t.Errorf("got %+v", standing)
				}
			case c.problem != "":
				if standing.Record != nil || !strings.Contains(standing.Problem, c.problem) {
					t.Errorf("got %+v, want %s", standing, c.problem)
				}
			case standing.Problem != "":
				t.Error(standing.Problem)
			}
			if serials[of("eu")] != c.serial {
				t.Errorf("serial %d, want %d", serials[of("eu")], c.serial)
			}
		})
	}
}

// TestRecordReadsBack: what a cluster signs is what the others read.
func TestRecordReadsBack(t *testing.T) {
	eu := newSigner(t, 1)
	record := promotion.Record{Cluster: "eu", NodeSync: "eu", Unlisted: []string{"z"}}.Next(promotion.Verdict{
		Commit: "a", State: promotion.Failed, Reason: "braked:\n\n2 nodes", Effect: promotion.Effect{Nodes: 3, Of: 40}, Emergency: "alice",
	}, now)
	got, err := eu.seal(t, record).Open(of("eu"), eu.keys(t, ""), now)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(record, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

func FuzzOpen(f *testing.F) {
	f.Add([]byte("tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\n\nx\n\n{}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := (promotion.Envelope{Data: data}).Open(of("eu"), newSigner(t, 1).keys(t, ""), now); err == nil {
			t.Error("an envelope without a signature was opened")
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(fleetFile))
	f.Fuzz(func(t *testing.T, data []byte) {
		rings, err := promotion.Parse(promotion.File, data)
		if (rings == nil) != (err != nil) {
			t.Errorf("got %v, %v", rings, err)
		}
	})
}

func ptr[T any](of T) *T { return &of }
