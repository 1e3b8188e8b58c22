package cloud

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// account implements the needed parts of AWS's wire formats: EC2 and STS in XML, EKS in JSON.
type account struct {
	// Instances by ID, with the tags cluster and pool.
	instances map[string]row
	// pageSize is how many instances a page contains; 0 means all.
	pageSize int
	// fail, if not nil, may return an error for a request.
	fail func(action string) (status int, code, message string)
	// refuse, if not nil, may return an error for a DescribeInstances.
	refuse func(form url.Values) (code, message string)
	// emptyFirst makes the first page empty, with a token.
	emptyFirst bool
	// hangs makes a DescribeInstances wait, after the number answers, until its caller is gone.
	hangs   atomic.Bool
	answers atomic.Int32

	// mu protects all fields once requests arrive.
	mu    sync.Mutex
	asked []url.Values
}

type row struct {
	zone, state, cluster, pool string
	// claimed reports whether it has the tag of a NodeClaim.
	claimed bool
}

// formOf returns the form of a request in EC2's protocol; it responds to an invalid one.
func formOf(w http.ResponseWriter, r *http.Request) (form url.Values, ok bool) {
	body, err := io.ReadAll(r.Body)
	if err == nil {
		form, err = url.ParseQuery(string(body))
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
	}
	return form, err == nil
}

func (a *account) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet && strings.HasPrefix(r.URL.Path, "/clusters/") {
		a.cluster(w, strings.TrimPrefix(r.URL.Path, "/clusters/"))
		return
	}
	form, ok := formOf(w, r)
	if !ok {
		return
	}
	if hangs := a.answer(w, form); hangs {
		<-r.Context().Done()
	}
}

// change changes the account, while a request whose caller is gone may still be read.
func (a *account) change(change func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change()
}

// answer answers one request, or reports that its caller gets no response.
func (a *account) answer(w http.ResponseWriter, form url.Values) (hangs bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked = append(a.asked, form)
	action := form.Get("Action")
	if a.fail != nil {
		if status, code, message := a.fail(action); status != 0 {
			w.WriteHeader(status)
			if strings.HasPrefix(action, "Describe") {
				fmt.Fprintf(w, `<Response><Errors><Error><Code>%s</Code><Message>%s</Message></Error></Errors><RequestID>%d</RequestID></Response>`, code, message, len(a.asked))
				return false
			}
			fmt.Fprintf(w, `<ErrorResponse><Error><Code>%s</Code><Message>%s</Message></Error></ErrorResponse>`, code, message)
			return false
		}
	}
	if action == "DescribeInstances" && a.refuse != nil {
		if code, message := a.refuse(form); code != "" {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `<Response><Errors><Error><Code>%s</Code><Message>%s</Message></Error></Errors></Response>`, code, message)
			return false
		}
	}
	switch action {
	case "DescribeInstances":
		if a.hangs.Load() && a.answers.Add(-1) < 0 {
			return true
		}
		a.describe(w, form)
	case "GetCallerIdentity":
		fmt.Fprint(w, `<GetCallerIdentityResponse><GetCallerIdentityResult><Account>111122223333</Account><Arn>arn:aws:iam::111122223333:role/plumbline</Arn></GetCallerIdentityResult></GetCallerIdentityResponse>`)
	default:
		http.Error(w, "unknown action "+action, http.StatusBadRequest)
	}
	return false
}

func (a *account) cluster(w http.ResponseWriter, name string) {
	if name != "demo" {
		w.Header().Set("X-Amzn-ErrorType", "ResourceNotFoundException")
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"message":"No cluster found for name: other."}`)
		return
	}
	fmt.Fprint(w, `{"cluster":{"name":"demo","arn":"arn:aws:eks:eu-west-1:111122223333:cluster/demo","endpoint":"https://demo.example.com","version":"1.36","certificateAuthority":{"data":"UEVN"}}}`)
}

func (a *account) describe(w http.ResponseWriter, form url.Values) {
	var ids []string
	for id, i := range a.instances {
		if matches(form, id, i) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	if a.emptyFirst && form.Get("NextToken") == "" {
		fmt.Fprint(w, `<DescribeInstancesResponse><reservationSet/><nextToken>0</nextToken></DescribeInstancesResponse>`)
		return
	}
	from, _ := strconv.Atoi(form.Get("NextToken"))
	until := len(ids)
	if a.pageSize > 0 {
		until = min(until, from+a.pageSize)
	}
	fmt.Fprint(w, `<DescribeInstancesResponse><reservationSet>`)
	for _, id := range ids[from:until] {
		i := a.instances[id]
		fmt.Fprintf(w, `<item><instancesSet><item><instanceId>%s</instanceId><instanceState><name>%s</name></instanceState><placement><availabilityZone>%s</availabilityZone></placement><tagSet><item><key>karpenter.sh/nodepool</key><value>%s</value></item></tagSet></item></instancesSet></item>`,
			id, i.state, i.zone, i.pool)
	}
	fmt.Fprint(w, `</reservationSet>`)
	if until < len(ids) {
		fmt.Fprintf(w, `<nextToken>%d</nextToken>`, until)
	}
	fmt.Fprint(w, `</DescribeInstancesResponse>`)
}

func matches(form url.Values, id string, i row) bool {
	if named := namedIn(form); len(named) > 0 {
		return slices.Contains(named, id)
	}
	for n := 1; form.Has(fmt.Sprintf("Filter.%d.Name", n)); n++ {
		var values []string
		for m := 1; form.Has(fmt.Sprintf("Filter.%d.Value.%d", n, m)); m++ {
			values = append(values, form.Get(fmt.Sprintf("Filter.%d.Value.%d", n, m)))
		}
		var has string
		switch name := form.Get(fmt.Sprintf("Filter.%d.Name", n)); name {
		case "instance-id":
			has = id
		case "tag:karpenter.sh/nodepool":
			has = i.pool
		case "tag:kubernetes.io/cluster/" + i.cluster:
			has = "owned"
		case "instance-state-name":
			has = i.state
		case "tag-key":
			switch {
			case i.pool != "":
				has = "karpenter.sh/nodepool"
			case i.claimed:
				has = "karpenter.sh/nodeclaim"
			}
		}
		if !slices.Contains(values, has) {
			return false
		}
	}
	return true
}

// all returns the requests that were made.
func (a *account) all() []url.Values {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.asked)
}

// last returns the latest DescribeInstances.
func (a *account) last() url.Values {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.asked[len(a.asked)-1]
}

// questions returns the number of DescribeInstances requests.
func (a *account) questions() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.asked)
}

// connect returns a client of the account, with the SDK's own default chain.
func connect(t *testing.T, handler http.Handler, options Options) *Client {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	t.Setenv("AWS_ENDPOINT_URL", server.URL)
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("AWS_CONFIG_FILE", t.TempDir()+"/none")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", t.TempDir()+"/none")
	if options.Region == "" {
		options.Region = "eu-west-1"
	}
	if options.Timeout == 0 {
		options.Timeout = 10 * time.Second
	}
	client, err := New(t.Context(), options)
	if err != nil {
		t.Fatalf("make a client: %v", err)
	}
	return client
}

// namedIn returns the instances that a DescribeInstances names.
func namedIn(form url.Values) []string {
	var ids []string
	for n := 1; form.Has(fmt.Sprintf("InstanceId.%d", n)); n++ {
		ids = append(ids, form.Get(fmt.Sprintf("InstanceId.%d", n)))
	}
	return ids
}

// filtered returns the values of the filter instance-id.
func filtered(form url.Values) []string {
	var ids []string
	for m := 1; form.Get("Filter.1.Name") == "instance-id" && form.Has(fmt.Sprintf("Filter.1.Value.%d", m)); m++ {
		ids = append(ids, form.Get(fmt.Sprintf("Filter.1.Value.%d", m)))
	}
	return ids
}
