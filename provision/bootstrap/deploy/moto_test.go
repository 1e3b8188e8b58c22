package deploy

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/plumbline-dev/plumbline/manifests"
	"github.com/plumbline-dev/plumbline/provision/bootstrap"
	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/iam"
)

// moto starts an AWS that is not this project's: https://github.com/getmoto/moto. It returns a client.
func moto(t *testing.T) *cloud.Provisioner {
	t.Helper()
	server, err := exec.LookPath("moto_server")
	if err != nil {
		t.Skip("moto_server is not installed: pip install 'moto[server]'")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(address)
	cmd := exec.CommandContext(t.Context(), server, "-H", "127.0.0.1", "-p", port)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Wait() }) // it is killed with the context
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL": "http://" + address, "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_CONFIG_FILE": "/dev/null",
		"AWS_EC2_METADATA_DISABLED": "true",
	} {
		t.Setenv(name, value)
	}
	deadline := time.After(3 * time.Minute)
	for {
		response, err := http.Get("http://" + address + "/moto-api/")
		if err == nil {
			_ = response.Body.Close()
			break
		}
		select {
		case <-deadline:
			t.Fatal("moto_server does not answer")
		case <-time.After(200 * time.Millisecond):
		}
	}
	client, err := cloud.NewProvisioner(t.Context(), cloud.Options{Region: "eu-west-1", Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// unknownToMoto are the types of resources that moto 5.2 does not create.
var unknownToMoto = []string{"AWS::EKS::AccessEntry", "AWS::EKS::PodIdentityAssociation"}

// TestMoto creates, upgrades and deletes the stack in an AWS that is not this project's. It ignores ManagedPolicyArns, the
// policies of queues, and the outputs of change sets.
func TestMoto(t *testing.T) {
	if testing.Short() {
		t.Skip("moto takes ten seconds to start")
	}
	client := moto(t)
	for _, name := range []string{"production", strings.Repeat("platform-", 4) + "prod", strings.Repeat("platform_-", 10)} {
		t.Run(fmt.Sprint(len(name)), func(t *testing.T) {
			spec := bootstrap.Spec{
				Cluster: iam.Cluster{Name: name, Region: "eu-west-1", Account: "123456789012"}, Version: "1.14.1", Auth: bootstrap.PodIdentity,
				AccessEntries: true, Controller: bootstrap.ServiceAccount{Namespace: "kube-system", Name: "karpenter"},
				Plumbline: bootstrap.ServiceAccount{Namespace: "plumbline-system", Name: "plumbline"},
				Daemon:    iam.Template{Prefix: "PlumblinePolicy-", Description: "plumbline's role", Text: manifests.DaemonPolicy},
			}
			d := &Deployer{AWS: client, Stack: spec.Stack(), Say: func(what string) { t.Log(what) }, Wait: func(ctx context.Context) error {
				select {
				case <-ctx.Done():
					return ctx.Err()
				case <-time.After(50 * time.Millisecond):
					return nil
				}
			}}
			apply := func(token, version, kind string) {
				t.Helper()
				spec.Version, d.Token = version, token
				template, err := bootstrap.New(spec)
				if err != nil {
					t.Fatal(err)
				}
				for id, r := range template.Resources {
					for _, unknown := range unknownToMoto {
						if r.Type == unknown {
							delete(template.Resources, id)
						}
					}
				}
				plan, err := run(t, d, template)
				if err != nil || plan.Kind != kind {
					t.Fatalf("%s: %q, %v", token, plan.Kind, err)
				}
			}
			apply("create", "1.14.1", "CREATE")
			apply("again", "1.14.1", "")
			role, err := client.NodeRole(t.Context(), spec.Name(bootstrap.NodeRole))
			if err != nil || !strings.Contains(role.Trust, "ec2.amazonaws.com") {
				t.Errorf("role of nodes: %+v, %v", role, err)
			}
			queue, err := client.Queue(t.Context(), spec.Name(bootstrap.Queue))
			if err != nil {
				t.Errorf("queue: %+v, %v", queue, err)
			}
			if rules, err := client.Rules(t.Context(), queue.ARN); err != nil || len(rules) != 5 {
				t.Errorf("rules: %+v, %v", rules, err)
			}
			stack, _, err := d.Current(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			apply("upgrade", "1.15.0", "UPDATE")
			if err := d.Delete(t.Context(), stack); err != nil {
				t.Fatal(err)
			}
			if gone, err := client.HasRole(t.Context(), spec.Name(bootstrap.NodeRole)); err != nil || gone {
				t.Errorf("the role of nodes stays: %v, %v", gone, err)
			}
		})
	}
}
