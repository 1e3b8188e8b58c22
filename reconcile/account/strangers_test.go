package account

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

func TestAPIServers(t *testing.T) {
	for name, test := range map[string]struct {
		userData string
		want     []string
	}{
		"AL2023":       {"--//\nContent-Type: application/node.eks.aws\n\napiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  cluster:\n    apiServerEndpoint: https://ABC.gr7.eu-west-1.eks.amazonaws.com\n    certificateAuthority: Y2E=\n", []string{"abc.gr7.eu-west-1.eks.amazonaws.com"}},
		"AL2":          {"#!/bin/bash -xe\n/etc/eks/bootstrap.sh 'demo' --apiserver-endpoint 'https://abc.eks.amazonaws.com:443' --b64-cluster-ca 'Y2E='", []string{"abc.eks.amazonaws.com"}},
		"Bottlerocket": {"[settings]\n[settings.kubernetes]\napi-server = 'https://127.0.0.1:6443'\ncluster-name = 'demo'\n", []string{"127.0.0.1:6443"}},
		"Windows":      {"<powershell>\n& $EKSBootstrapScriptFile -EKSClusterName 'demo' -APIServerEndpoint 'https://abc.eks.amazonaws.com' -Base64ClusterCA 'Y2E='\n</powershell>", []string{"abc.eks.amazonaws.com"}},
		"two":          {"apiServerEndpoint: https://a\napiServerEndpoint: https://b\napiServerEndpoint: https://a", []string{"a", "b"}},
		"of its own":   {"#!/bin/sh\ncurl https://example.com/join | sh\n", nil},
		"none":         {"", nil},
	} {
		if diff := cmp.Diff(test.want, apiServers(test.userData)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestStrangers: an instance is a stranger only if it was launched since the daemon began to watch, and no NodeClaim has
// or had it; it is foreign only if its user data has another API server.
func TestStrangers(t *testing.T) {
	join := func(host string) string { return "apiServerEndpoint: https://" + host }
	for name, test := range map[string]struct {
		launched time.Duration // before the comparison; the daemon was started 30 minutes before
		change   func(*cloud.Instance)
		userData string
		comment  string // in the user data of this cluster's instance
		unread   error
		endpoint string
		had      bool
		want     []Stranger
	}{
		"for another API server": {launched: time.Minute, userData: join("theirs"), endpoint: "https://OURS", want: []Stranger{{Instance: "i-x", Pool: "general", Alive: true, Endpoint: "https://theirs", Foreign: true}}},
		"for this one":           {launched: time.Minute, userData: join("ours"), endpoint: "https://OURS", want: []Stranger{{Instance: "i-x", Pool: "general", Alive: true, Endpoint: "https://ours"}}},
		"EKS does not answer":    {launched: time.Minute, userData: join("theirs"), want: []Stranger{{Instance: "i-x", Pool: "general", Alive: true, Endpoint: "https://theirs", Foreign: true}}},
		"just launched, and its NodeClaim is not cached yet": {launched: 10 * time.Second, userData: "", endpoint: "https://ours"},
		"EKS does not answer, and a comment names it":        {launched: 2 * time.Minute, userData: join("theirs"), comment: "# --apiserver-endpoint https://theirs\n", want: []Stranger{{Instance: "i-x", Pool: "general", Alive: true}}},
		"a comment in Git names it":                          {launched: time.Minute, userData: join("theirs"), comment: "# --apiserver-endpoint https://theirs\n", endpoint: "https://ours", want: []Stranger{{Instance: "i-x", Pool: "general", Alive: true, Endpoint: "https://theirs", Foreign: true}}},
		"its comment names this one":                         {launched: 2 * time.Minute, userData: "# --apiserver-endpoint https://ours\n" + join("theirs"), endpoint: "https://ours", want: []Stranger{{Instance: "i-x", Pool: "general", Alive: true}}},
		"this cluster's nodes join by a proxy":               {launched: time.Minute, userData: join("ours"), endpoint: "https://eks", want: []Stranger{{Instance: "i-x", Pool: "general", Alive: true, Endpoint: "https://ours"}}},
		"user data of its own":                               {launched: 2 * time.Minute, userData: "", endpoint: "https://ours", want: []Stranger{{Instance: "i-x", Pool: "general", Alive: true}}},
		"user data is denied":                                {launched: 2 * time.Minute, userData: join("theirs"), unread: errors.New("denied"), endpoint: "https://ours", want: []Stranger{{Instance: "i-x", Pool: "general", Alive: true}}},
		"from before the daemon was started":                 {launched: time.Hour, userData: join("theirs"), endpoint: "https://ours"},
		"this cluster had it":                                {launched: 2 * time.Minute, userData: join("theirs"), endpoint: "https://ours", had: true},
		"terminated, for another":                            {launched: 2 * time.Minute, change: func(i *cloud.Instance) { i.State = "terminated" }, userData: join("theirs"), endpoint: "https://ours", want: []Stranger{{Instance: "i-x", Pool: "general", Endpoint: "https://theirs", Foreign: true}}},
		"terminated, unknown":                                {launched: 2 * time.Minute, change: func(i *cloud.Instance) { i.State = "terminated" }, endpoint: "https://ours"},
		"of a managed node group":                            {launched: 2 * time.Minute, change: func(i *cloud.Instance) { i.Pool = "" }, userData: join("theirs"), endpoint: "https://ours"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ours := cloud.Instance{ID: "i-1", Zone: "a", State: "running", Pool: "general", Launched: time.Now().Add(-time.Hour)}
				ec2 := &instancesAWS{shown: []cloud.Instance{ours}, userData: map[string]string{"aws:///a/i-1": test.comment + join("ours"), "aws:///a/i-x": test.userData}}
				asker, now := &InstanceChecker{}, []plan.NodeClaim{{Name: "a", Pool: "general", ProviderID: "aws:///a/i-1"}}
				look := func(l *InstanceLook) { l.Live.NodeClaims, l.Endpoint = now, test.endpoint }
				ec2.pass(t, asker, look)
				<-time.After(30 * time.Minute)
				synctest.Wait()
				if test.had {
					now = append(now, plan.NodeClaim{Name: "x", Pool: "general", ProviderID: "aws:///a/i-x"})
					ec2.pass(t, asker, look)
					<-time.After(11 * time.Minute)
					synctest.Wait()
					now = now[:1]
				}
				x := cloud.Instance{ID: "i-x", Zone: "a", State: "running", Pool: "general", Launched: time.Now().Add(-test.launched)}
				if test.change != nil {
					test.change(&x)
				}
				ec2.shown, ec2.unread = append(ec2.shown, x), nil
				if test.unread != nil {
					ec2.userData["aws:///a/i-x"] = ""
				}
				ec2.pass(t, asker, look)
				<-time.After(time.Second)
				got := asker.Compared()
				for i := range got.Strangers {
					if !got.Strangers[i].Launched.Equal(x.Launched) {
						t.Errorf("launched %s", got.Strangers[i].Launched)
					}
					got.Strangers[i].Launched = time.Time{}
				}
				if diff := cmp.Diff(test.want, got.Strangers); diff != "" {
					t.Errorf("-want +got:\n%s", diff)
				}
				if got.Ours != 1 {
					t.Errorf("%d of this cluster", got.Ours)
				}
			})
		})
	}
}

// TestASignIsComparedAtOnce: a termination triggers a comparison at once, and not more often than every 15 seconds.
func TestASignIsComparedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ec2, asker := &instancesAWS{none: true}, &InstanceChecker{}
		pass := func(terminations int) int {
			ec2.pass(t, asker, func(l *InstanceLook) { l.Terminations = terminations })
			<-time.After(time.Second)
			synctest.Wait()
			return ec2.asked
		}
		pass(0)
		<-time.After(time.Minute)
		if n := pass(0); n != 1 {
			t.Fatalf("asked %d times at rest", n)
		}
		if n := pass(1); n != 2 {
			t.Errorf("asked %d times after a sign", n)
		}
		if n := pass(1); n != 2 {
			t.Errorf("asked %d times after the same sign", n)
		}
		if n := pass(2); n != 2 {
			t.Errorf("asked %d times within seconds", n)
		}
		<-time.After(signSpacing)
		if n := pass(2); n != 3 {
			t.Errorf("asked %d times after another sign", n)
		}
		<-time.After(time.Minute)
		if n := pass(1); n != 3 {
			t.Errorf("asked %d times when one was forgotten", n)
		}
	})
}
