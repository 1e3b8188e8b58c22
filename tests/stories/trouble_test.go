package stories_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim"
	"github.com/plumbline-dev/plumbline/tests/sandbox/charts"
)

func (s *story) faultCommand(_ *testscript.TestScript, args []string) error {
	if len(args) == 1 && args[0] == "off" {
		s.c.AWS.RemoveFaults("")
		return nil
	}
	usage := errors.New("usage: fault WHO SERVICE ACTION KIND [DURATION|N/s|Nx], fault WHO SERVICE ACTION error CODE [Nx], or fault off")
	code := ""
	if len(args) > 4 && args[3] == string(awssim.Fail) {
		code = args[4] // before Delete, which clears it
		args = slices.Delete(args, 4, 5)
	}
	if len(args) < 4 || len(args) > 5 {
		return usage
	}
	key, err := s.accessKey(args[0])
	if err != nil {
		return err
	}
	f := awssim.Fault{AccessKey: key, Service: strings.Trim(args[1], "*"), Action: args[2], Kind: awssim.FaultKind(args[3]), Code: code}
	if len(args) == 5 {
		if err := measure(&f, args[4]); err != nil {
			return err
		}
	}
	_, err = s.c.AWS.AddFault(f)
	return err
}

// measure parses the duration, the rate, or the number of calls.
func measure(f *awssim.Fault, text string) (err error) {
	if rate, ok := strings.CutSuffix(text, "/s"); ok {
		f.Rate, err = strconv.ParseFloat(rate, 64)
		return err
	}
	if count, ok := strings.CutSuffix(text, "x"); ok {
		f.Count, err = strconv.Atoi(count)
		return err
	}
	d, err := time.ParseDuration(text)
	f.Duration = awssim.Duration(d)
	return err
}

func (s *story) capacityCommand(_ *testscript.TestScript, args []string) error {
	usage := errors.New("usage: capacity short [type=T] [zone=Z] [market=M], or capacity back")
	if len(args) == 0 {
		return usage
	}
	settings, err := settingsOf(args[1:])
	switch {
	case err != nil:
		return err
	case args[0] == "back":
		s.c.AWS.Restock()
		return nil
	case args[0] == "short":
		return s.c.AWS.RunShort(awssim.Shortage{Type: settings["type"], Zone: settings["zone"], Market: settings["market"]})
	}
	return usage
}

func (s *story) answersCommand(_ *testscript.TestScript, args []string) error {
	usage := errors.New("usage: answers WHO [flap=SHARE] [lag=D] [settle=D] [short=SHARE] [empty=SHARE] [tags=D] [token=D], or answers usual")
	if len(args) == 0 {
		return usage
	}
	answers := awssim.DefaultAnswers()
	if len(args) == 1 && args[0] == "usual" {
		return s.c.AWS.SetAnswers(answers)
	}
	var err error
	if answers.AccessKey, err = s.accessKey(args[0]); err != nil {
		return err
	}
	shares := map[string]*float64{"flap": &answers.Flap, "short": &answers.ShortPages, "empty": &answers.EmptyPages}
	times := map[string]*awssim.Duration{"lag": &answers.Lag, "settle": &answers.Settle, "tags": &answers.TagsStay, "token": &answers.TokenLife}
	settings, err := settingsOf(args[1:])
	if err != nil {
		return err
	}
	for key, text := range settings {
		switch {
		case shares[key] != nil:
			*shares[key], err = strconv.ParseFloat(text, 64)
		case times[key] != nil:
			var d time.Duration
			d, err = time.ParseDuration(text)
			*times[key] = awssim.Duration(d)
		default:
			err = usage
		}
		if err != nil {
			return err
		}
	}
	return s.c.AWS.SetAnswers(answers)
}

func (s *story) zoneCommand(_ *testscript.TestScript, args []string) error {
	if len(args) != 2 || args[1] != "down" && args[1] != "up" {
		return errors.New("usage: zone ZONE down|up")
	}
	return s.c.AWS.Outage(args[0], args[1] == "down")
}

func (s *story) eksCommand(_ *testscript.TestScript, args []string) error {
	switch {
	case len(args) == 2 && args[0] == "status":
		return s.c.AWS.SetClusterStatus(s.c.Cluster, args[1])
	case len(args) == 1 && (args[0] == "gone" || args[0] == "back"):
		return s.c.AWS.SetClusterGone(s.c.Cluster, args[0] == "gone")
	}
	return errors.New("usage: eks status STATUS, gone, back")
}

const (
	// strangeAccount is the account of the wrong credentials.
	strangeAccount = "999988887777"
	// strangeAuthority is the certificate of another authority, in base64 of PEM as EKS returns it.
	strangeAuthority = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCkFBQUEKLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo="
)

func (s *story) accountCommand(_ *testscript.TestScript, args []string) error {
	usage := errors.New("usage: account own|twin|empty")
	if len(args) != 1 || !slices.Contains([]string{"own", "twin", "empty"}, args[0]) {
		return usage
	}
	key, err := s.accessKey("plumbline")
	if err != nil || args[0] == "own" {
		s.c.AWS.Reroute(key, nil)
		return err
	}
	strange := awssim.New(awssim.Options{Region: s.c.Region, Account: strangeAccount})
	if args[0] == "twin" {
		if err := strange.AddCluster(awssim.Cluster{Name: s.c.Cluster, Endpoint: "https://127.0.0.1:1", CertificateAuthority: strangeAuthority, Version: "1.36"}); err != nil {
			return err
		}
	}
	s.c.AWS.Reroute(key, strange)
	return nil
}

// elsewhereCommand controls another cluster of the account, with one node.
func (s *story) elsewhereCommand(_ *testscript.TestScript, args []string) error {
	switch {
	case len(args) == 2 && args[0] == "adds":
		err := s.c.AWS.AddCluster(awssim.Cluster{Name: args[1], Endpoint: "https://" + args[1] + ".example.com", CertificateAuthority: strangeAuthority, Version: "1.36"})
		if err != nil {
			return err
		}
		// Many accounts have one policy for all their clusters: with the one of manifests/, AWS refuses to describe
		// another cluster.
		err = s.c.AWS.PutRolePolicy("plumbline-"+s.c.Cluster, "all-clusters", `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"eks:DescribeCluster","Resource":"*"}}`)
		if err != nil {
			return err
		}
		s.elsewhere, err = s.c.AWS.AddNode(args[1], "theirs")
		return err
	case len(args) == 1 && args[0] == "runs":
		runs := func(i awssim.Instance) bool {
			return i.ID == s.elsewhere && (i.State == "pending" || i.State == "running")
		}
		if !slices.ContainsFunc(s.c.AWS.Instances(), runs) {
			return fmt.Errorf("the other cluster's instance %s runs no more", s.elsewhere)
		}
		return nil
	}
	return errors.New("usage: elsewhere adds CLUSTER, elsewhere runs")
}

func (s *story) registryCommand(ts *testscript.TestScript, args []string) error {
	if len(args) > 0 && args[0] == "publishes" {
		return s.publish(ts, args[1:])
	}
	if len(args) == 2 && args[0] == "artifact" {
		return s.pushArtifact(args[1])
	}
	if s.mend != nil {
		s.mend()
		s.mend = nil
	}
	var f charts.Fault
	var err error
	switch word := strings.Join(args[:min(1, len(args))], ""); {
	case word == "back" && len(args) == 1:
		return nil
	case word == "away" && len(args) == 1:
		f.Away = true
	case word == "truncated" && len(args) == 1:
		f.Path, f.Truncate = "/blobs/", true
	case word == "corrupt" && len(args) == 1:
		f.Path, f.Corrupt = "/blobs/", true
	case word == "slow" && len(args) == 2:
		f.Delay, err = time.ParseDuration(args[1])
	case word == "answers" && len(args) == 2:
		f.Status, err = strconv.Atoi(args[1])
	default:
		err = errors.New("usage: registry away|truncated|corrupt|back, registry slow DURATION, registry answers STATUS, registry artifact TAG, registry publishes CHART VERSION as TAG …")
	}
	if err != nil {
		return err
	}
	s.mend = s.c.Charts.Inject(f)
	return nil
}

// mendAll ends all faults that the story has caused around the cluster.
func (s *story) mendAll() {
	s.c.AWS.Restore()
	s.c.AWS.Reroute(s.c.Variables()["AWS_ACCESS_KEY_ID"], nil)
	if s.mend != nil {
		s.mend()
		s.mend = nil
	}
}

// strike does something to one instance of a pool: the first by its ID.
func (s *story) strike(pool string, do func(instanceID string) error) error {
	running := s.billed(pool)
	if len(running) == 0 {
		return fmt.Errorf("pool %q has no instance", pool)
	}
	s.struck = slices.Min(running)
	return do(s.struck)
}

// strayInstance launches an instance of a pool without a NodeClaim. Karpenter, which goes by the tag of the EKS
// cluster, does not terminate it.
func (s *story) strayInstance(pool string) (err error) {
	if s.struck, err = s.c.AWS.AddNode(s.c.Cluster, pool); err != nil {
		return err
	}
	return s.c.AWS.Untag(s.struck, "eks:eks-cluster-name")
}

// leave adds what a node leaves behind that was terminated too early: a volume of a claim, and an interface of the VPC
// CNI plugin.
func (s *story) leave() error {
	s.c.AWS.CreateVolume(s.c.Region+"a", 8, map[string]string{
		"kubernetes.io/cluster/" + s.c.Cluster: "owned", "kubernetes.io/created-for/pvc/namespace": "shop", "kubernetes.io/created-for/pvc/name": "data-0",
	})
	_, err := s.c.AWS.AddInterface(s.c.Cluster, map[string]string{"kubernetes.io/cluster/" + s.c.Cluster: "owned", "cluster.k8s.amazonaws.com/name": s.c.Cluster})
	return err
}

// asked checks that plumbline has queried EC2 for the struck instance since the mark.
func (s *story) asked() error {
	key, err := s.accessKey("plumbline")
	if err != nil {
		return err
	}
	for _, call := range s.calls() {
		ids := slices.Collect(maps.Values(call.Parameters))
		if call.AccessKey == key && call.Action == "DescribeInstances" && call.Code == "" && slices.Contains(ids, s.struck) {
			return nil
		}
	}
	return fmt.Errorf("EC2 was not asked for instance %q", s.struck)
}
