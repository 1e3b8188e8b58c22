package preflight

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/iam"
)

// motoAccount is an account in moto, from testdata/account.py.
type motoAccount struct {
	Endpoint, Moto, Role, Image string

	commands io.Writer
	answers  *bufio.Scanner
}

// startMoto starts moto with a healthy account until the test ends.
func startMoto(t *testing.T) *motoAccount {
	t.Helper()
	if _, full := os.LookupEnv("PLUMBLINE_FULL"); !full {
		t.Skip("starts moto: it runs with PLUMBLINE_FULL=1, as in make test-full")
	}
	if out, err := exec.CommandContext(t.Context(), "python3", "-c", "import boto3, moto.server").CombinedOutput(); err != nil {
		t.Skipf("moto is not installed (pip install 'moto[server]>=5.2' boto3): %v: %s", err, out)
	}
	policies, err := iam.Controller(version, iam.Cluster{Name: "prod", Region: "eu-west-1", Account: account, NodeRoles: []string{nodeRole0}, Queue: "prod"})
	if err != nil {
		t.Fatal(err)
	}
	documents := map[string]iam.Document{}
	for _, p := range policies {
		documents[p.Name] = p.Document
	}
	allows := func(actions, resource string) string {
		return `{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": {"Service": "events.amazonaws.com"}, "Action": ` + actions + `, "Resource": "` + resource + `"}]}`
	}
	config := indented(map[string]any{
		"cluster": "prod", "region": "eu-west-1", "policies": documents,
		"queuePolicy": allows(`"sqs:SendMessage"`, "${QUEUE}"), "keyPolicy": allows(`["kms:GenerateDataKey", "kms:Decrypt"]`, "*"),
	})
	cmd := exec.CommandContext(t.Context(), "python3", "testdata/account.py", config)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close() // it ends with its input
		_ = cmd.Wait() // or is killed with the test
	})
	m := &motoAccount{commands: in, answers: bufio.NewScanner(out)}
	if !m.answers.Scan() {
		t.Fatalf("moto does not start: %v", m.answers.Err())
	}
	if err := json.Unmarshal(m.answers.Bytes(), m); err != nil {
		t.Fatalf("read %q: %v", m.answers.Text(), err)
	}
	return m
}

// do runs a command of testdata/account.py.
func (m *motoAccount) do(t *testing.T, command string) {
	t.Helper()
	fmt.Fprintln(m.commands, command)
	if !m.answers.Scan() || m.answers.Text() != "done" {
		t.Fatalf("%s: %q, error %v", command, m.answers.Text(), m.answers.Err())
	}
}

// counter counts requests to moto by action, and answers those that moto 5.2 does not have: EKS Pod Identity, access
// entries, add-ons and insights, and quotas of EC2. It denies IAM's policy simulator.
type counter struct {
	http.Handler

	mu    sync.Mutex
	calls map[string]int
}

// beside are the answers to what moto does not have, by a part of the request; an empty one is that nothing was found.
var beside = map[string]string{
	"/pod-identity-associations": `{"associations":[]}`,
	"/addons":                    `{"addons":[]}`,
	"/insights":                  `{"insights":[]}`,
	"/access-entries/":           "",
	"SimulatePrincipalPolicy":    "",
	"ListServiceQuotas":          `{"Quotas":[{"QuotaCode":"L-1216C47A","QuotaName":"On-Demand","Value":256},{"QuotaCode":"L-34B43A08","QuotaName":"Spot","Value":256}]}`,
}

// actionField is the action in a request of EC2, IAM and STS.
var actionField = regexp.MustCompile(`(?:^|&)Action=(\w+)`)

func (c *counter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	target := r.Header.Get("X-Amz-Target")
	action := r.URL.Path
	if found := actionField.FindSubmatch(body); found != nil {
		action = string(found[1])
	} else if target != "" {
		action = target[strings.LastIndex(target, ".")+1:]
	}
	c.mu.Lock()
	c.calls[action]++
	c.mu.Unlock()
	for part, answer := range beside {
		if !strings.Contains(action, part) {
			continue
		}
		w.Header().Set("Content-Type", "application/json")
		if answer == "" && part == "SimulatePrincipalPolicy" {
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `<ErrorResponse><Error><Code>AccessDenied</Code><Message>it is not authorized</Message></Error></ErrorResponse>`)
			return
		}
		if answer == "" {
			w.Header().Set("X-Amzn-ErrorType", "ResourceNotFoundException")
			w.WriteHeader(http.StatusNotFound)
			answer = `{"message":"not found"}`
		}
		fmt.Fprint(w, answer)
		return
	}
	c.Handler.ServeHTTP(w, r)
}

// take returns the number of requests since the last time, by action.
func (c *counter) take() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	taken := c.calls
	c.calls = map[string]int{}
	return taken
}

// objects are those of a cluster that fits the account.
func (m *motoAccount) objects() []client.Object {
	labels := map[string]string{"app.kubernetes.io/name": "karpenter"}
	karpenter := deploymentOf("kube-system", "karpenter", "public.ecr.aws/karpenter/controller:"+version, labels)
	karpenter.Spec.Template.Spec.ServiceAccountName = "karpenter"
	karpenter.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "CLUSTER_NAME", Value: "prod"}, {Name: "INTERRUPTION_QUEUE", Value: "prod"}}
	serviceAccount := &corev1.ServiceAccount{ObjectMeta: meta("kube-system", "karpenter", nil)}
	serviceAccount.Annotations = map[string]string{cloud.RoleAnnotation: m.Role}
	discovery := map[string]string{"karpenter.sh/discovery": "prod"}
	family := "AL2023"
	class := &awsv1.EC2NodeClass{
		ObjectMeta: meta("", "default", nil),
		Spec: awsv1.EC2NodeClassSpec{
			Role: nodeRole0, AMIFamily: &family, AMISelectorTerms: []awsv1.AMISelectorTerm{{ID: m.Image}},
			SubnetSelectorTerms:        []awsv1.SubnetSelectorTerm{{Tags: discovery}},
			SecurityGroupSelectorTerms: []awsv1.SecurityGroupSelectorTerm{{Tags: discovery}},
		},
		Status: awsv1.EC2NodeClassStatus{Subnets: []awsv1.Subnet{{ID: "a", Zone: "eu-west-1a", ZoneID: "euw1-az1"}, {ID: "b", Zone: "eu-west-1b", ZoneID: "euw1-az2"}}},
	}
	general := pool("general", "amd64")
	return []client.Object{
		karpenter, serviceAccount, class, &general, &appsv1.DaemonSet{ObjectMeta: meta("kube-system", "ebs-csi-node", nil)},
		&corev1.ConfigMap{ObjectMeta: meta("kube-system", "aws-auth", nil), Data: map[string]string{"mapRoles": mapEntry(nodeRoleARN)}},
	}
}

// documentedRequests finds the number of requests of a run in the documentation.
var documentedRequests = regexp.MustCompile(`all checks takes (\d+) requests to AWS`)

// TestAgainstMoto runs the checks of AWS against moto, an implementation of AWS that is not this project's: all are OK in a
// healthy account, each finds what is broken, and is OK again afterwards. It also counts the requests of a run.
func TestAgainstMoto(t *testing.T) {
	m := startMoto(t)
	at, err := url.Parse(m.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	requests := &counter{Handler: httputil.NewSingleHostReverseProxy(at), calls: map[string]int{}}
	server := httptest.NewServer(requests)
	t.Cleanup(server.Close)
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL": server.URL, "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test",
		"AWS_CONFIG_FILE": t.TempDir() + "/none", "AWS_SHARED_CREDENTIALS_FILE": t.TempDir() + "/none",
	} {
		t.Setenv(name, value)
	}
	r := reader(t, m.objects()...)
	examine := func(ids ...string) map[string]Result {
		aws, err := cloud.New(t.Context(), cloud.Options{Region: "eu-west-1", Timeout: 2 * time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		r.AWS = aws
		checks, err := Select(ids)
		if err != nil {
			t.Fatal(err)
		}
		// What is young is not reported.
		o := Observed{Now: time.Now().Add(time.Hour), Cluster: "prod", Region: "eu-west-1", Version: version}
		results := map[string]Result{}
		for _, result := range Run(checks, r.Read(t.Context(), checks, o)) {
			results[result.Check] = result
		}
		return results
	}

	healthy := examine()
	taken := requests.take()
	for _, id := range []string{
		"controller-role", "controller-reach", "node-role", "interruption-queue", "network", "images", "capacity", "launch-validation",
	} {
		if healthy[id].Status != OK {
			t.Errorf("moto %s, a healthy account: %+v", m.Moto, healthy[id])
		}
	}
	requestsAreDocumented(t, taken)

	for _, c := range []struct {
		broken, repaired, check string
		status                  Status
		says                    string
	}{
		{"break_route", "repair_route", "network", Problem, "no endpoint for ec2, ecr.api, ecr.dkr, s3: instances do not become nodes"},
		{"break_route_with_endpoints", "repair_route", "network", OK, ""},
		{"break_route_with_closed_endpoints", "repair_route", "network", Problem, "no rule of security groups allows TCP 443 from the nodes to vpce-"},
		{"break_group", "repair_group", "network", Problem, "belongs to cluster other by its tags"},
		{"break_key", "repair_key", "interruption-queue", Problem, "does not allow kms:GenerateDataKey to EventBridge"},
		{"break_rule", "repair_rule", "interruption-queue", Problem, `no enabled rule sends "EC2 Spot Instance Interruption Warning"`},
		{"break_role", "repair_role", "controller-reach", Problem, "may terminate any instances of the account"},
		{"break_policies", "repair_policies", "controller-role", Problem, "the policies do not allow"},
		{"break_nodes", "repair_nodes", "node-role", Problem, "does not have the policy AmazonEKSWorkerNodePolicy"},
		{"break_volume", "repair_volume", "leftovers", Warning, "volume vol-"},
		{"break_template", "repair_template", "leftovers", Warning, "launch template lt-"},
		{"break_instance", "repair_instance", "leftovers", Problem, "has no NodeClaim"},
	} {
		t.Run(c.broken, func(t *testing.T) {
			m.do(t, c.broken)
			found := examine(c.check)[c.check]
			says := slices.ContainsFunc(found.Findings, func(f Finding) bool { return strings.Contains(f.Message, c.says) })
			if found.Status != c.status || !says && c.says != "" {
				t.Errorf("%+v, want %s: %s", found, c.status, c.says)
			}
			m.do(t, c.repaired)
			if found := examine(c.check)[c.check]; found.Status != healthy[c.check].Status {
				t.Errorf("after %s: %+v", c.repaired, found)
			}
		})
	}
}

// requestsAreDocumented checks that the documentation states how many requests a run takes.
func requestsAreDocumented(t *testing.T, taken map[string]int) {
	t.Helper()
	text, err := os.ReadFile("../../" + Docs)
	if err != nil {
		t.Fatal(err)
	}
	documented := documentedRequests.FindSubmatch(text)
	if documented == nil {
		t.Fatalf("%s does not state the number of requests", Docs)
	}
	want, err := strconv.Atoi(string(documented[1]))
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, action := range slices.Sorted(maps.Keys(taken)) {
		total += taken[action]
		t.Logf("%3d %s", taken[action], action)
	}
	if total != want {
		t.Errorf("a run takes %d requests, and %s states %d", total, Docs, want)
	}
}
