package notify_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/notify"
)

var update = flag.Bool("update", false, "write the recorded shapes again")

// TestReceiversGetTheirShape: each type of receiver gets the documented body, as recorded in testdata, for a problem
// and for its end.
func TestReceiversGetTheirShape(t *testing.T) {
	for _, kind := range []v1alpha1.NotifyType{v1alpha1.NotifySlack, v1alpha1.NotifyTeams, v1alpha1.NotifyAlertmanager, v1alpha1.NotifyGeneric} {
		t.Run(string(kind), func(t *testing.T) {
			w := newWorld(t, nil, nil)
			w.tell(kind, heldNotice(), endedNotice())
			w.until("both", func() bool { return len(w.requests()) == 2 })
			var got bytes.Buffer
			for _, r := range w.requests() {
				if r.path != "/services/T0/B0/s3cr3tp4th" || r.header.Get("Content-Type") != "application/json" {
					t.Errorf("sent to %s as %s", r.path, r.header.Get("Content-Type"))
				}
				if err := json.Indent(&got, []byte(r.body), "", "  "); err != nil {
					t.Fatal(err)
				}
				got.WriteString("\n")
			}
			path := filepath.Join("testdata", strings.ToLower(string(kind))+".json")
			if *update {
				if err := os.WriteFile(path, got.Bytes(), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestProof: the sender is authenticated as each type of receiver expects.
func TestProof(t *testing.T) {
	password := func(s *corev1.Secret) {
		delete(s.Data, "token")
		s.Data["username"], s.Data["password"] = []byte("plumbline"), []byte("pass")
	}
	none := func(s *corev1.Secret) { delete(s.Data, "token") }
	cases := map[string]struct {
		kind       v1alpha1.NotifyType
		change     func(*corev1.Secret)
		name, want string
	}{
		"a bearer's token": {v1alpha1.NotifyAlertmanager, nil, "Authorization", "Bearer " + key},
		"a password":       {v1alpha1.NotifyAlertmanager, password, "Authorization", "Basic cGx1bWJsaW5lOnBhc3M="},
		"nobody":           {v1alpha1.NotifyAlertmanager, none, "Authorization", ""},
		"an HMAC":          {v1alpha1.NotifyGeneric, nil, "X-Signature", "of the body"},
		"no key":           {v1alpha1.NotifyGeneric, none, "X-Signature", ""},
		"its address":      {v1alpha1.NotifySlack, nil, "Authorization", ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, c.change, nil)
			w.tell(c.kind, heldNotice())
			w.until("a request", func() bool { return len(w.requests()) == 1 })
			r := w.requests()[0]
			if c.want == "of the body" {
				mac := hmac.New(sha256.New, []byte(key))
				mac.Write([]byte(r.body))
				c.want = "sha256=" + hex.EncodeToString(mac.Sum(nil))
			}
			if got := r.header.Get(c.name); got != c.want {
				t.Errorf("%s is %q, want %q", c.name, got, c.want)
			}
		})
	}
}

// TestAlertmanagerGetsNoFinishedRollout, because it is not an alert.
func TestAlertmanagerGetsNoFinishedRollout(t *testing.T) {
	w := newWorld(t, nil, nil)
	finished := notify.Notice{NodeSync: prod, Subject: "RolledOut", Reason: notify.RolledOut, Severity: v1alpha1.NotifyInfo}
	w.tell(v1alpha1.NotifyAlertmanager, finished, heldNotice())
	w.until("a request", func() bool { return len(w.requests()) == 1 })
	if body := w.requests()[0].body; !strings.Contains(body, "Held") {
		t.Errorf("it got %s", body)
	}
}
