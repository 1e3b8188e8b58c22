package webhook

import (
	"bufio"
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

const (
	namespace = "plumbline-system"
	secret    = "plumbline-webhook"
	theToken  = "correct horse"
)

// bed is a Receiver with fakes.
type bed struct {
	t       *testing.T
	client  client.WithWatch
	clock   *still
	handler http.Handler
	log     *bytes.Buffer
	woken   []string
	// looked are the NodeSyncs whose pull requests are listed.
	looked []string
	asleep error // the error of Wake
	down   error // the error of the API server
	reads  int   // of Secrets
}

func newBed(t *testing.T, objects ...client.Object) *bed {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, corev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	b := &bed{t: t, clock: newStill(), log: &bytes.Buffer{}}
	b.client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if b.reads++; b.down != nil {
				return b.down
			}
			return c.Get(ctx, key, obj, opts...)
		},
	}).Build()
	b.handler = New(Options{
		NodeSyncs: b.client, Secrets: b.client, Namespace: namespace, Secret: secret, Waker: b, Pulls: b, Now: b.clock.now,
		Logger: funcr.New(func(prefix, args string) { b.log.WriteString(prefix + args + "\n") }, funcr.Options{Verbosity: 9}),
	})
	return b
}

func (b *bed) Wake(_ context.Context, syncs []v1alpha1.NodeSync) error {
	for i := range syncs {
		b.woken = append(b.woken, syncs[i].Name)
	}
	slices.Sort(b.woken)
	return b.asleep
}

func tokenSecret(value string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: secret}, Data: map[string][]byte{"token": []byte(value)}}
}

func following(name, url string, ref v1alpha1.GitRef) *v1alpha1.NodeSync {
	return &v1alpha1.NodeSync{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       v1alpha1.NodeSyncSpec{Source: v1alpha1.Source{Git: &v1alpha1.GitSource{URL: url, Ref: ref}}},
	}
}

func hmacOf(body []byte, token string) string {
	mac := hmac.New(sha256.New, []byte(token))
	mac.Write(body)
	return hex.EncodeToString(mac.Sum(nil))
}

// delivery returns the headers that a kind of host sends.
func delivery(host, event string, body []byte, token string) http.Header {
	signature := hmacOf(body, token)
	h := http.Header{"Content-Type": {"application/json"}}
	switch host {
	case "forgejo":
		h.Set("X-Forgejo-Event", event)
		h.Set("X-Forgejo-Signature", signature)
		fallthrough
	case "gitea":
		h.Set("X-Gitea-Event", event)
		h.Set("X-Gitea-Signature", signature)
		fallthrough // both send GitHub's headers too
	case "github":
		h.Set("X-GitHub-Event", event)
		h.Set("X-Hub-Signature-256", "sha256="+signature)
	case "gitlab":
		h.Set("X-Gitlab-Event", event)
		h.Set("X-Gitlab-Token", token)
	case "bitbucket":
		h.Set("X-Hook-UUID", "7f3e0c6e-0000-4000-8000-000000000000")
		fallthrough
	case "bitbucketserver":
		h.Set("X-Event-Key", event)
		h.Set("X-Hub-Signature", "sha256="+signature)
	case "azuredevops": // the event is in the body
		h.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte("plumbline:"+token)))
	}
	return h
}

// post sends a request and returns the response.
func (b *bed) post(header http.Header, body []byte) (int, answer) {
	b.t.Helper()
	w := b.serve(http.MethodPost, Path, header, body)
	var a answer
	if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil {
		b.t.Fatalf("answer %d %q: %v", w.Code, w.Body, err)
	}
	return w.Code, a
}

func (b *bed) serve(method, path string, header http.Header, body []byte) *httptest.ResponseRecorder {
	req := httptest.NewRequestWithContext(b.t.Context(), method, path, bytes.NewReader(body))
	req.Header = header
	w := httptest.NewRecorder()
	b.handler.ServeHTTP(w, req)
	return w
}

// TestEvents covers the events of each host, and their results.
func TestEvents(t *testing.T) {
	cases := map[string]struct {
		host, event, file string
		status            int
		woken             []string
	}{
		"github push":         {"github", "push", "github/push.json", 202, []string{"hub-https", "hub-ssh"}},
		"github tag":          {"github", "push", "github/tag.json", 202, []string{"hub-range", "hub-tag"}},
		"github ping":         {"github", "ping", "github/ping.json", 200, nil},
		"github pull request": {"github", "pull_request", "github/push.json", 202, nil},
		"gitlab push":         {"gitlab", "Push Hook", "gitlab/push.json", 202, []string{"lab"}},
		"gitlab tag":          {"gitlab", "Tag Push Hook", "gitlab/tag.json", 202, nil},
		"gitlab issue":        {"gitlab", "Issue Hook", "gitlab/push.json", 202, nil},
		"gitea push":          {"gitea", "push", "gitea/push.json", 202, []string{"tea"}},
		"gitea create":        {"gitea", "create", "gitea/push.json", 202, nil},
		"forgejo push":        {"forgejo", "push", "forgejo/push.json", 202, []string{"forge"}},
		"bitbucket push":      {"bitbucket", "repo:push", "bitbucket/push.json", 202, []string{"bucket", "bucket-dev", "bucket-tag"}},
		"bitbucket fork":      {"bitbucket", "repo:fork", "bitbucket/push.json", 202, nil},
		"bitbucket pull":      {"bitbucket", "pullrequest:created", "bitbucket/pull.json", 202, nil},
		"data center push":    {"bitbucketserver", "repo:refs_changed", "bitbucketserver/push.json", 202, []string{"server", "server-ssh"}},
		"data center tag":     {"bitbucketserver", "repo:refs_changed", "bitbucketserver/tag.json", 202, []string{"server-tag"}},
		"data center ping":    {"bitbucketserver", "diagnostics:ping", "bitbucketserver/ping.json", 200, nil},
		"data center pull":    {"bitbucketserver", "pr:opened", "bitbucketserver/pull.json", 202, nil},
		"azure push":          {"azuredevops", "", "azuredevops/push.json", 202, []string{"azure", "azure-ssh"}},
		"azure pull":          {"azuredevops", "", "azuredevops/pull.json", 202, nil},
		"azure work item":     {"azuredevops", "", "azuredevops/other.json", 202, nil},
	}
	const hub = "https://github.com/codertocat/hello-world"
	objects := []client.Object{
		tokenSecret(theToken),
		following("hub-https", hub, v1alpha1.GitRef{}),
		following("hub-ssh", "ssh://git@github.com/Codertocat/Hello-World.git", v1alpha1.GitRef{Branch: "main"}),
		following("hub-dev", hub, v1alpha1.GitRef{Branch: "dev"}),
		following("hub-tag", hub, v1alpha1.GitRef{Tag: "v1.2.0"}),
		following("hub-range", hub, v1alpha1.GitRef{SemVer: "1.x"}),
		following("hub-other", "https://github.com/codertocat/other", v1alpha1.GitRef{}),
		following("hub-commit", hub, v1alpha1.GitRef{Commit: "59b20b8d5c6ff8d09518216e87bae0a2b5f4a6a2"}),
		following("lab", "ssh://git@example.com:2222/mike/diaspora.git", v1alpha1.GitRef{}),
		following("tea", "http://localhost:3000/gitea/webhooks.git", v1alpha1.GitRef{Branch: "develop"}),
		following("forge", "https://forge.example.org/team/webhooks.git", v1alpha1.GitRef{Branch: "develop"}),
		following("bucket", "https://bitbucket.org/acme/fleet", v1alpha1.GitRef{}),
		following("bucket-dev", "git@bitbucket.org:acme/fleet.git", v1alpha1.GitRef{Branch: "dev"}),
		following("bucket-tag", "git@bitbucket.org:acme/fleet.git", v1alpha1.GitRef{SemVer: "1.x"}),
		following("server", "https://bitbucket.example.com/scm/flt/fleet.git", v1alpha1.GitRef{}),
		following("server-ssh", "ssh://git@bitbucket.example.com:7999/flt/fleet.git", v1alpha1.GitRef{}),
		following("server-tag", "ssh://git@bitbucket.example.com:7999/flt/fleet.git", v1alpha1.GitRef{SemVer: "1.x"}),
		following("azure", "https://dev.azure.com/acme/infra%20eu/_git/fleet", v1alpha1.GitRef{}),
		following("azure-ssh", "git@ssh.dev.azure.com:v3/acme/infra%20eu/fleet", v1alpha1.GitRef{}),
		func() client.Object {
			elsewhere := following("elsewhere", hub, v1alpha1.GitRef{})
			elsewhere.Namespace = "default"
			return elsewhere
		}(),
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, objects...)
			body := payloadOf(t, c.file)
			status, a := b.post(delivery(c.host, c.event, body, theToken), body)
			if status != c.status || a.Woken != len(c.woken) {
				t.Errorf("answer %d %+v", status, a)
			}
			if diff := cmp.Diff(c.woken, b.woken); diff != "" {
				t.Errorf("woken (-want +got):\n%s", diff)
			}
			if a.Woken == 0 && a.Message == "" {
				t.Error("it does not say why it wakes nothing")
			}
		})
	}
}

func TestTheTokenComesAndChanges(t *testing.T) {
	b := newBed(t, following("hub", "https://github.com/codertocat/hello-world", v1alpha1.GitRef{}))
	body := payloadOf(t, "github/push.json")
	try := func(token string, want int) {
		t.Helper()
		if got, a := b.post(delivery("github", "push", body, token), body); got != want {
			t.Errorf("with %q: %d %+v, want %d", token, got, a, want)
		}
	}
	try(theToken, 503)
	try("", 503) // a missing token is not the empty token
	if reads := b.reads; reads != 1 {
		t.Errorf("the Secret was read %d times within a moment", reads)
	}
	if n := strings.Count(b.log.String(), "until there is a token"); n != 1 {
		t.Errorf("it is logged %d times that there is no token:\n%s", n, b.log)
	}
	written := tokenSecret(theToken + "\n")
	if err := b.client.Create(t.Context(), written); err != nil {
		t.Fatal(err)
	}
	b.clock.at = b.clock.at.Add(missingValidFor)
	try(theToken, 202)
	written.Data["token"] = []byte("another")
	if err := b.client.Update(t.Context(), written); err != nil {
		t.Fatal(err)
	}
	b.clock.at = b.clock.at.Add(10 * time.Second)
	try(theToken, 401)
	try("another", 202)
	written.Data = map[string][]byte{"tocken": []byte("another"), "token": []byte("\n")}
	if err := b.client.Update(t.Context(), written); err != nil {
		t.Fatal(err)
	}
	b.clock.at = b.clock.at.Add(10 * time.Second)
	try("another", 503)
	try("", 503)
	if n := strings.Count(b.log.String(), "until there is a token"); n != 2 {
		t.Errorf("a token that went is logged %d times, want once more", n-1)
	}
	if !slices.Equal(b.woken, []string{"hub", "hub"}) {
		t.Errorf("woken %v", b.woken)
	}
}

func TestAnAPIServerThatIsAway(t *testing.T) {
	body := payloadOf(t, "github/push.json")
	header := delivery("github", "push", body, theToken)
	b := newBed(t, tokenSecret(theToken), following("hub", "https://github.com/codertocat/hello-world", v1alpha1.GitRef{}))
	b.down = errors.New("connection refused")
	if w := b.serve(http.MethodPost, Path, header, body); w.Code != 503 || w.Header().Get("Retry-After") == "" || strings.Contains(w.Body.String(), "refused") {
		t.Errorf("without the Secret: %d %v %s", w.Code, w.Header(), w.Body)
	}
	b.down = nil
	b.asleep = errors.New("cannot wake")
	if w := b.serve(http.MethodPost, Path, header, body); w.Code != 503 || w.Header().Get("Retry-After") == "" {
		t.Errorf("without a wake: %d %s", w.Code, w.Body)
	}
	b.asleep = nil
	if w := b.serve(http.MethodPost, Path, header, body); w.Code != 202 {
		t.Errorf("at once after: %d %s", w.Code, w.Body)
	}
}

// pipes is a listener whose connections stay in this process, so that the test controls the time.
type pipes struct{ waiting chan net.Conn }

func (p pipes) Accept() (net.Conn, error) {
	connection, ok := <-p.waiting
	if !ok {
		return nil, net.ErrClosed
	}
	return connection, nil
}

func (p pipes) Close() error   { close(p.waiting); return nil }
func (p pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes", Net: "unix"} }

func (p pipes) dial() net.Conn {
	ours, theirs := net.Pipe()
	p.waiting <- theirs
	return ours
}

// slowly sends a byte each second, and reports how long the connection was kept.
func slowly(connection net.Conn, text string, held chan<- time.Duration) {
	began := time.Now()
	gaveUp := make(chan struct{})
	go func() {
		defer close(gaveUp)
		every := time.NewTicker(time.Second)
		defer every.Stop()
		for i := range len(text) {
			<-every.C
			if _, err := connection.Write([]byte{text[i]}); err != nil {
				return
			}
		}
	}()
	_, _ = io.Copy(io.Discard, connection) // until it is closed for any reason
	lasted := time.Since(began)
	<-gaveUp
	held <- lasted
}

// asked sends a complete request and returns the status of the response.
func asked(t *testing.T, connection net.Conn) int {
	t.Helper()
	go func() {
		_, _ = io.WriteString(connection, "POST /hook HTTP/1.1\r\nHost: plumbline\r\nContent-Length: 2\r\n\r\n{}")
	}()
	answered, err := http.ReadResponse(bufio.NewReader(connection), nil)
	if err != nil {
		t.Error(err)
		return 0
	}
	defer answered.Body.Close()
	return answered.StatusCode
}

// TestSlowClients: a client that sends a byte per second, in its headers or body, is disconnected in time; others are
// served in the meantime, or right after if slow clients use all connections.
func TestSlowClients(t *testing.T) {
	cases := map[string]struct {
		clients int
		text    string
		within  time.Duration // an honest request is answered
	}{
		"slow headers":   {maxConnections - 1, "POST /hook HTTP/1.1\r\nHost: plumbline\r\n" + strings.Repeat("X-Padding: x\r\n", 100), 0},
		"slow body":      {maxConnections - 1, "POST /hook HTTP/1.1\r\nHost: a\r\nContent-Length: 500\r\n\r\n" + strings.Repeat("x", 500), 0},
		"nothing at all": {maxConnections - 1, "", 0},
		"all of them":    {maxConnections, "POST /hook HTTP/1.1\r\nHost: plumbline\r\n" + strings.Repeat("X-Padding: x\r\n", 100), readTimeout + time.Second},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				listener := pipes{make(chan net.Conn, maxConnections+1)}
				server := serving(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if _, err := io.ReadAll(r.Body); err != nil {
						w.WriteHeader(http.StatusBadRequest)
					}
				}))
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- server.Start(ctx) }()
				held := make(chan time.Duration, c.clients)
				for range c.clients {
					go slowly(listener.dial(), c.text, held)
				}
				synctest.Wait() // all of them have a connection
				began := time.Now()
				if code := asked(t, listener.dial()); code != http.StatusOK {
					t.Errorf("an honest request is answered by %d", code)
				}
				if took := time.Since(began); took > c.within {
					t.Errorf("an honest request is answered after %s, want %s", took, c.within)
				}
				for range c.clients {
					if lasted := <-held; lasted > readTimeout+time.Second {
						t.Errorf("a slow client holds its connection for %s", lasted)
					}
				}
				stop()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
		})
	}
}
