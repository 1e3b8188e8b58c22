package main

import (
	"context"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/steppoint"
)

// endingAWS is AWS that accepts what it is asked to end, and notes it.
type endingAWS struct {
	asked  []string
	failed map[string]error
	// passes are the same, by the pass.
	passes [][]string
}

func (e *endingAWS) End(_ context.Context, _ string, resources []cloud.Resource) map[string]error {
	var ids []string
	for _, r := range resources {
		ids = append(ids, r.ID)
	}
	e.asked, e.passes = append(e.asked, ids...), append(e.passes, ids)
	return e.failed
}

func (e *endingAWS) dial(context.Context, string, steppoint.Points) (ender, error) { return e, nil }

// stranded are an instance and a volume of the cluster alone, and a volume that another one has, too.
func stranded() []cloud.Answer {
	owned := map[string]string{"kubernetes.io/cluster/demo": "owned", "karpenter.sh/nodepool": "general"}
	shared := maps.Clone(owned)
	shared["kubernetes.io/cluster/stage"] = "shared"
	return []cloud.Answer{
		{Kind: cloud.KindInstance, Resources: []cloud.Resource{{Kind: cloud.KindInstance, ID: "i-0a1", State: "running", Tags: owned}}},
		{Kind: cloud.KindVolume, Resources: []cloud.Resource{
			{Kind: cloud.KindVolume, ID: "vol-1", State: "available", Tags: owned},
			{Kind: cloud.KindVolume, ID: "vol-2", State: "available", Tags: shared},
		}},
	}
}

// noServer is a kubeconfig whose API server is gone.
func noServer(t *testing.T) string { return kubeconfigFor(t, "http://127.0.0.1:1") }

func goneArgs(more ...string) []string {
	return append([]string{"--cluster-gone", "--cluster", "demo", "--region", "eu-west-1", "--account", "111122223333", "--timeout", "1s"}, more...)
}

// TestClusterGone: without flags it only shows what there is; each flag ends what it is for.
func TestClusterGone(t *testing.T) {
	cases := map[string]struct {
		args  []string
		asked []string
		code  int
		says  []string
	}{
		"nothing asked for": {nil, nil, exitStalled, []string{"--terminate would end 1 instance (i-0a1)", "--sweep would delete 1 volume (vol-1)", "volume vol-2 stays: it has a tag of cluster stage, too", "left in AWS: "}},
		"--terminate":       {[]string{"--terminate", "--yes"}, []string{"i-0a1"}, exitDone, []string{"ends in AWS: 1 instance (i-0a1)", "instance i-0a1 is being terminated"}},
		"--sweep":           {[]string{"--sweep", "--yes"}, []string{"vol-1"}, exitDone, []string{"volume vol-1 is deleted"}},
		"both":              {[]string{"--terminate", "--sweep", "--yes"}, []string{"i-0a1", "vol-1"}, exitDone, nil},
		"not confirmed":     {[]string{"--terminate"}, nil, exitFailed, []string{"confirm that by --yes"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			aws, by := awsAnswers(stranded(), stranded(), nothingLeft), &endingAWS{}
			got := teardownOver(t.Context(), t, nil, aws, by, append(goneArgs(c.args...), "--kubeconfig", noServer(t))...)
			if got.code != c.code || !slices.Equal(by.asked, c.asked) {
				t.Errorf("code %d, want %d; ends %v, want %v: %s", got.code, c.code, by.asked, c.asked, got.err)
			}
			for _, want := range c.says {
				if !strings.Contains(got.err, want) {
					t.Errorf("says %s\nwant %q in it", got.err, want)
				}
			}
		})
	}
}

// TestClusterGoneEndsNothing where it may be another cluster, or one that is not gone.
func TestClusterGoneEndsNothing(t *testing.T) {
	node := map[string]any{"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": "n"}, "spec": map[string]any{"providerID": "aws:///eu-west-1a/i-0a1"}}
	cases := map[string]struct {
		server func(s *apiServer)
		aws    func(aws *remainsOf)
		args   []string
		says   string
	}{
		"a NodeSync of the cluster": {func(*apiServer) {}, nil, nil, "answers, and nodesync/prod there is of cluster demo; nothing was changed"},
		"Karpenter of the cluster": {func(s *apiServer) {
			delete(s.objects, syncPath+"prod")
			s.objects[controllerPath] = karpenterOf("demo")
		}, nil, nil, "deployment/karpenter there is Karpenter of cluster demo"},
		"one of the instances":        {func(s *apiServer) { s.objects["/api/v1/nodes/n"] = node }, nil, nil, "answers, and i-0a1 is a Node of it"},
		"it does not say whose it is": {func(s *apiServer) { s.refused["/api/v1/nodes"] = http.StatusForbidden }, nil, nil, "answers, and does not say whose it is"},
		"it does not know the user":   {func(s *apiServer) { s.refused["/"] = http.StatusUnauthorized }, nil, nil, "answers, and does not say whose it is"},
		"EKS has it":                  {nil, func(aws *remainsOf) { aws.eks = map[string]error{"demo": nil} }, nil, "EKS cluster demo exists in eu-west-1: it is not gone"},
		"EKS may not be asked": {nil, func(aws *remainsOf) {
			aws.eks = map[string]error{"demo": &cloud.DeniedError{Action: "eks:DescribeCluster"}}
		}, nil, "allow eks:DescribeCluster to the credentials in use, as manifests/iam-policy-verify.json does"},
		"another account":             {nil, nil, []string{"--account", "444455556666"}, "AWS answers for account 111122223333, and the cluster is in 444455556666"},
		"the clusters of everybody":   {nil, nil, []string{"--cluster", "*"}, `--cluster "*" is no name of an EKS cluster`},
		"no account":                  {nil, nil, []string{"--account", ""}, "--cluster-gone needs --cluster, --region and --account"},
		"a NodeSync":                  {nil, nil, []string{"prod"}, "--cluster-gone and a NodeSync do not go together"},
		"Karpenter's charts":          {nil, nil, []string{"--down-to", "crds"}, "--cluster-gone and --down-to do not go together"},
		"a question is not answered":  {nil, func(aws *remainsOf) { aws.answers = [][]cloud.Answer{denied} }, nil, "AWS has not answered every question"},
		"AWS denies to end instances": {nil, nil, nil, "allow ec2:TerminateInstances to the credentials in use, as manifests/iam-policy-teardown.json does"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			kubeconfig := noServer(t)
			if c.server != nil {
				s, _, of := tornDown(t)
				c.server(s)
				kubeconfig = of
			}
			aws, by := awsAnswers(stranded()), &endingAWS{failed: map[string]error{"i-0a1": &cloud.DeniedError{Action: "ec2:TerminateInstances"}}}
			if c.aws != nil {
				c.aws(aws)
			}
			got := teardownOver(t.Context(), t, nil, aws, by, append(goneArgs("--terminate", "--yes", "--kubeconfig", kubeconfig), c.args...)...)
			if asked := c.says[:5] == "allow" && strings.Contains(c.says, "Terminate"); got.code != exitFailed || !strings.Contains(got.err, c.says) || asked != (len(by.asked) > 0) {
				t.Errorf("code %d, ends %v, says %s\nwant %q", got.code, by.asked, got.err, c.says)
			}
		})
	}
}

// TestClusterGoneBesideAnother: an API server that is another cluster's does not stand in the way, nor does none.
func TestClusterGoneBesideAnother(t *testing.T) {
	s, sync, kubeconfig := tornDown(t)
	sync.Status.Karpenter.Cluster = "stage"
	s.objects[controllerPath] = karpenterOf("stage")
	for name, args := range map[string][]string{"another one": {"--kubeconfig", kubeconfig}, "none": {"--kubeconfig", folder(t, map[string]string{"config": "apiVersion: v1\nkind: Config\n"}) + "/config"}} {
		by := &endingAWS{}
		got := teardownOver(t.Context(), t, nil, awsAnswers(stranded(), stranded(), nothingLeft), by, append(goneArgs("--terminate", "--yes"), args...)...)
		if got.code != exitDone || !slices.Equal(by.asked, []string{"i-0a1"}) || len(s.changes()) > 0 {
			t.Errorf("%s: code %d, ends %v, writes %v: %s", name, got.code, by.asked, s.changes(), got.err)
		}
	}
}

func karpenterOf(cluster string) map[string]any {
	d := karpenterWith(1)
	d["spec"] = map[string]any{"replicas": 1, "template": map[string]any{"spec": map[string]any{"containers": []any{
		map[string]any{"name": "controller", "env": []any{map[string]any{"name": "CLUSTER_NAME", "value": cluster}}},
	}}}}
	return d
}

// TestOnlyTeardownEnds: nothing but this command has what ends something in AWS.
func TestOnlyTeardownEnds(t *testing.T) {
	for _, root := range []string{"..", "../../reconcile", "../../provision"} {
		err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			if at := filepath.Base(path); strings.Contains(string(text), "NewEnder(") && at != "ender.go" && at != "teardown_end.go" {
				t.Errorf("%s makes an Ender", path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
