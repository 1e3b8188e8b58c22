package page

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// serve serves on a loopback port, as the daemon does, until the test ends.
func (b *bed) serve(t *testing.T) (url string) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- serving(listener, b).Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return "http://" + listener.Addr().String()
}

// get sends an HTTP request.
func get(ctx context.Context, c *http.Client, url string) (code int, body string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	answer, err := c.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	read, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(read), err
}

// TestAHundredAskEachSecond over HTTP, with more connections than allowed at a time: each page is rendered once per
// second, and all clients see the changes by then.
func TestAHundredAskEachSecond(t *testing.T) {
	const seconds, asking = 10, 100
	w := worldOf(nodeSyncWith("prod"))
	b := newBed(t, w, true, nil)
	base := b.serve(t)
	transport := &http.Transport{MaxIdleConnsPerHost: asking} // it keeps connections open, as many browsers would
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: writeTimeout}
	for second := range seconds {
		says := fmt.Sprintf("changed %d times", second)
		w.NodeSyncs[0] = nodeSyncWith("prod", ready(metav1.ConditionFalse, "Stalled", says))
		b.pass(cacheFor)
		var group sync.WaitGroup
		var answered atomic.Int32
		for i := range asking {
			path := []string{"/", "/nodesyncs/prod"}[i%2]
			group.Go(func() {
				switch code, body, err := get(t.Context(), client, base+path); {
				case err != nil:
					t.Error(err)
				case code != http.StatusOK || !strings.Contains(body, says):
					t.Errorf("%s says %d, without %q:\n%s", path, code, says, body)
				default:
					answered.Add(1)
				}
			})
		}
		group.Wait()
		if reads, renders := int(b.reads.Load()), int(b.renders.Load()); reads != second+1 || renders != 2*(second+1) || answered.Load() != asking {
			t.Fatalf("after %d seconds read %d times, rendered %d pages, %d of %d were answered", second+1, reads, renders, answered.Load(), asking)
		}
	}
}
