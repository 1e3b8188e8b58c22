package removal

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/render"
)

// slowPages is an EC2 that returns one terminated instance per page, and answers only the granted number of requests.
type slowPages struct {
	ids     []string
	granted atomic.Int32
	firsts  atomic.Int32
}

func (p *slowPages) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if p.granted.Add(-1) < 0 {
		<-r.Context().Done()
		return
	}
	token := r.PostForm.Get("NextToken")
	if token == "" {
		p.firsts.Add(1)
	}
	at, _ := strconv.Atoi(token)
	next := ""
	if at+1 < len(p.ids) {
		next = fmt.Sprintf("<nextToken>%d</nextToken>", at+1)
	}
	fmt.Fprintf(w, `<DescribeInstancesResponse><reservationSet><item><instancesSet><item><instanceId>%s</instanceId><instanceState><name>terminated</name></instanceState><placement><availabilityZone>eu-west-1a</availabilityZone></placement><tagSet><item><key>karpenter.sh/nodepool</key><value>batch</value></item></tagSet></item></instancesSet></item></reservationSet>%s</DescribeInstancesResponse>`, p.ids[at], next)
}

// client returns a real client of this EC2.
func (p *slowPages) client(t *testing.T, patience time.Duration) *cloud.Client {
	t.Helper()
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	t.Setenv("AWS_ENDPOINT_URL", server.URL)
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	client, err := cloud.New(t.Context(), cloud.Options{Region: "eu-west-1", Timeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// TestDriveOverSeveralPages checks that a removal completes although each reconcile has time for only one page of EC2's
// response: each continues where the last one stopped.
func TestDriveOverSeveralPages(t *testing.T) {
	s := newStage(t, pool("batch", "batch-uid", dynamic()))
	pages := &slowPages{}
	for _, name := range []string{"a", "b", "c", "d"} {
		s.launch(name, "batch", "batch-uid")
		pages.ids = append(pages.ids, "i-"+name)
	}
	s.find(render.NodePool, "batch", "batch-uid")
	for range 4 {
		s.pass()
	}
	s.karpenter("terminated")
	s.ec2 = pages.client(t, 500*time.Millisecond)
	partial, ended := 0, false
	for pass := 0; pass < 20 && !ended; pass++ {
		pages.granted.Store(1)
		got := s.pass()
		ended = got[0] == "batch Gone"
		if !ended && strings.Contains(s.message(), "more pages than one pass reads") {
			partial++
			if got[0] != "batch VerifyingCloud" {
				t.Errorf("after a part of the answer: %q", got)
			}
		}
	}
	if !ended || partial < 2 || pages.firsts.Load() != 1 {
		t.Errorf("ended: %t, %d passes with a part of the answer, %d first pages, want an end, at least 2, and 1; it says %q", ended, partial, pages.firsts.Load(), s.message())
	}
}
