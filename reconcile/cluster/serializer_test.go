package cluster_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/plumbline-dev/plumbline/reconcile/cluster"
)

var kind = schema.GroupVersionKind{Group: "karpenter.sh", Version: "v1", Kind: "NodePool"}

// body is the answer to every watch.
type body string

func (b body) RoundTrip(request *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(string(b))), Request: request,
	}, nil
}

// reader counts the objects that are read in one go.
type reader struct{ reads int }

func (r *reader) read(raw []byte) (runtime.Object, error) {
	r.reads++
	object := &unstructured.Unstructured{}
	return object, json.Unmarshal(raw, &object.Object)
}

func slow() runtime.NegotiatedSerializer {
	return dynamic.ConfigFor(&rest.Config{}).NegotiatedSerializer
}

// watched are the events of a watch until it ends.
func watchedFields(t *testing.T, by runtime.NegotiatedSerializer, sent string) []watch.Event {
	t.Helper()
	version := kind.GroupVersion()
	config := &rest.Config{Host: "http://kubernetes", APIPath: "/apis", ContentConfig: rest.ContentConfig{GroupVersion: &version, NegotiatedSerializer: by}}
	client, err := rest.RESTClientForConfigAndClient(config, &http.Client{Transport: body(sent)})
	if err != nil {
		t.Fatal(err)
	}
	w, err := client.Get().Resource("nodepools").Watch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	var events []watch.Event
	for e := range w.ResultChan() {
		events = append(events, e)
	}
	return events
}

func wirePool(name, spec string) string {
	return fmt.Sprintf(`{"apiVersion":"karpenter.sh/v1","kind":"NodePool","metadata":{"name":%q,"resourceVersion":"7"},"spec":%s}`, name, spec)
}

func watchEvent(kind, object string) string {
	return fmt.Sprintf(`{"type":%q,"object":%s}`, kind, object) + "\n"
}

// TestAWatchIsTheSame as client-go reads it, and read in one go where it begins as the API
// server writes it.
func TestAWatchIsTheSame(t *testing.T) {
	long := fmt.Sprintf(`{"text":%q}`, strings.Repeat("x", 100_000))
	for name, tc := range map[string]struct {
		sent  string
		reads int
	}{
		"nothing":             {"", 0},
		"each type of event":  {watchEvent("ADDED", wirePool("a", `{"weight":1}`)) + watchEvent("MODIFIED", wirePool("a", `{"weight":2.5}`)) + watchEvent("DELETED", wirePool("a", `{}`)), 3},
		"a long one":          {watchEvent("ADDED", wirePool("a", long)) + watchEvent("ADDED", wirePool("b", `{}`)), 2},
		"signs":               {watchEvent("ADDED", wirePool("a", `{"s":"\n\u2028\u003c}\",\"object\":{","big":9223372036854775807,"n":null}`)), 1},
		"keys in no order":    {watchEvent("ADDED", `{"kind":"NodePool","metadata":{"name":"a"},"apiVersion":"karpenter.sh/v1"}`), 0},
		"the object first":    {`{"object":` + wirePool("a", `{}`) + `,"type":"ADDED"}` + "\n", 1},
		"another kind":        {watchEvent("ADDED", `{"apiVersion":"karpenter.sh/v1","kind":"NodePoolX","metadata":{"name":"a"}}`), 0},
		"a bookmark":          {watchEvent("BOOKMARK", `{"kind":"NodePool","apiVersion":"karpenter.sh/v1","metadata":{"resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"true"}}}`), 0},
		"an error":            {watchEvent("ERROR", `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old","reason":"Expired","code":410}`), 0},
		"an unknown type":     {watchEvent("SURPRISE", wirePool("a", `{}`)), 0},
		"cut within an event": {watchEvent("ADDED", wirePool("a", `{}`)) + watchEvent("ADDED", wirePool("b", `{}`))[:60], 1},
		"cut within a long":   {watchEvent("ADDED", wirePool("a", long))[:50_000], 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := &reader{}
			want, got := watchedFields(t, slow(), tc.sent), watchedFields(t, cluster.Serializer(slow(), kind, r.read), tc.sent)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("events (-client-go's +ours):\n%s", diff)
			}
			if r.reads != tc.reads {
				t.Errorf("%d read in one go, want %d", r.reads, tc.reads)
			}
		})
	}
}

// TestWhatCannotBeReadIsLeftToClientGo: the first watch ends with an error, after which the cache
// begins another, and that one is read.
func TestWhatCannotBeReadIsLeftToClientGo(t *testing.T) {
	for name, sent := range map[string]string{
		"an event with more in it": strings.Replace(watchEvent("ADDED", wirePool("a", `{}`)), "}\n", `,"more":{}}`+"\n", 1),
		"events over many lines":   strings.ReplaceAll(watchEvent("ADDED", wirePool("a", `{}`)), ",", ",\n"),
		"events in one line":       strings.TrimSuffix(watchEvent("ADDED", wirePool("a", `{}`)), "\n") + watchEvent("ADDED", wirePool("b", `{}`)),
		"an empty line":            "\n" + watchEvent("ADDED", wirePool("a", `{}`)),
	} {
		t.Run(name, func(t *testing.T) {
			by := cluster.Serializer(slow(), kind, (&reader{}).read)
			first := watchedFields(t, by, sent)
			if len(first) == 0 || first[len(first)-1].Type != watch.Error {
				t.Errorf("the first watch says nothing of it: %v", first)
			}
			if diff := cmp.Diff(watchedFields(t, slow(), sent), watchedFields(t, by, sent)); diff != "" {
				t.Errorf("the second watch (-client-go's +ours):\n%s", diff)
			}
		})
	}
}

// TestFrames: each Read is of one line at most, whatever comes in one piece and however much fits.
func TestFrames(t *testing.T) {
	sent := []string{"a\n", strings.Repeat("b", 40_000) + "\n", "\n", strings.Repeat("c", 16<<10-1) + "\n", strings.Repeat("d", 16<<10) + "\n", "e\n"}
	framer := cluster.Serializer(slow(), kind, nil).SupportedMediaTypes()[0].StreamSerializer.Framer
	for _, size := range []int{1, 2, 1000, 16 << 10, 100_000} {
		for name, r := range map[string]io.Reader{"at once": strings.NewReader(strings.Join(sent, "")), "a byte at a time": oneByte{strings.NewReader(strings.Join(sent, ""))}} {
			from := framer.NewFrameReader(io.NopCloser(r))
			for _, want := range sent {
				if got := frame(t, from, size); got != want {
					t.Fatalf("%d bytes, %s: %d bytes beginning with %.10q, want %d of %.10q", size, name, len(got), got, len(want), want)
				}
			}
			if _, err := from.Read(make([]byte, size)); !errors.Is(err, io.EOF) {
				t.Errorf("%d bytes, %s: at the end: %v", size, name, err)
			}
		}
	}
}

type oneByte struct{ io.Reader }

func (o oneByte) Read(into []byte) (int, error) { return o.Reader.Read(into[:min(1, len(into))]) }

// frame reads one, as a decoder of client-go does.
func frame(t *testing.T, from io.Reader, size int) string {
	t.Helper()
	var all bytes.Buffer
	for into := make([]byte, size); ; {
		n, err := from.Read(into)
		all.Write(into[:n])
		switch {
		case err == nil:
			return all.String()
		case !errors.Is(err, io.ErrShortBuffer):
			t.Fatal(err)
		}
	}
}

// TestAnObjectIsReadIntoWhatIsGiven by client-go itself.
func TestAnObjectIsReadIntoWhatIsGiven(t *testing.T) {
	r := &reader{}
	decoder := cluster.Serializer(slow(), kind, r.read).SupportedMediaTypes()[0].Serializer
	into := &unstructured.Unstructured{}
	if _, _, err := decoder.Decode([]byte(wirePool("a", `{}`)), nil, into); err != nil || into.GetName() != "a" || r.reads != 0 {
		t.Errorf("%q, %v, read %d times in one go", into.GetName(), err, r.reads)
	}
}
