package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// unknownToMoto are the commands of EKS that moto 5.2 does not have: access entries, add-ons and Pod Identity.
const unknownToMoto = "create-access-entry|delete-access-entry|describe-addon|create-addon|create-pod-identity-association|" +
	"list-pod-identity-associations|delete-pod-identity-association"

// TestSetUpByHandInMoto runs the commands of docs/set-up-by-hand.md about AWS, line by line, with the real AWS CLI in an AWS that is
// not this project's: https://github.com/getmoto/moto. The story set-up-by-hand runs all of the page in the project's own.
func TestSetUpByHandInMoto(t *testing.T) {
	if testing.Short() {
		t.Skip("moto and the AWS CLI take a minute")
	}
	programs := map[string]string{}
	for _, name := range []string{"aws", "moto_server", "envsubst", "bash"} {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Skip(name + " is not installed")
		}
		programs[name] = path
	}
	page, err := os.ReadFile("../../docs/set-up-by-hand.md")
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	const region, cluster = "eu-west-1", "prod-eu"
	// Version 1 of the AWS CLI has endpoints of SQS that only its flag replaces.
	bin := t.TempDir()
	for name, script := range map[string]string{
		"plumbline": fmt.Sprintf("exec env %s=1 '%s' \"$@\"", runVariable, os.Args[0]),
		"aws":       fmt.Sprintf("case \"$2\" in %s) exit 0 ;; esac\nexec '%s' --endpoint-url \"$AWS_ENDPOINT_URL\" \"$@\"", unknownToMoto, programs["aws"]),
	} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	environment := append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "AWS_ENDPOINT_URL="+startMoto(t, programs["moto_server"]),
		"AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test", "AWS_CONFIG_FILE="+os.DevNull, "AWS_EC2_METADATA_DISABLED=true",
		"AWS_REGION="+region, "AWS_DEFAULT_REGION="+region, "REGION="+region, "CLUSTER_NAME="+cluster, "ACCOUNT=123456789012", "PARTITION=aws",
		"FILES="+t.TempDir(), "AWS_PAGER=")
	run := func(script string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), programs["bash"], "-eu", "-o", "pipefail", "-c", script)
		cmd.Dir, cmd.Env = root, environment
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s\n%s", err, script, out)
		}
		return string(out)
	}
	run(`aws eks create-cluster --name "$CLUSTER_NAME" --role-arn arn:aws:iam::123456789012:role/cluster --resources-vpc-config \
  "subnetIds=$(aws ec2 describe-subnets --query 'Subnets[].SubnetId' --output text | tr '\t' ,)"`)
	// moto's cluster has no security group of its own.
	tags := strings.NewReplacer("[subnetIds, [clusterSecurityGroupId]][]", "subnetIds[]")
	for _, heading := range []string{"What Karpenter needs in AWS", "The role of plumbline"} {
		for _, script := range blocksOf(t, string(page), heading) {
			run(tags.Replace(script))
		}
	}
	for what, want := range map[string]string{
		`aws iam list-attached-role-policies --role-name KarpenterNodeRole-prod-eu --query 'AttachedPolicies[].PolicyName' --output text`: "AmazonSSMManagedInstanceCore",
		`aws iam list-attached-role-policies --role-name plumbline-prod-eu --query 'AttachedPolicies[].PolicyName' --output text`:         "plumbline-prod-eu",
		`aws events list-rule-names-by-target --target-arn arn:aws:sqs:eu-west-1:123456789012:prod-eu --query 'length(RuleNames)'`:        "5",
	} {
		if got := run(what); !strings.Contains(got, want) {
			t.Errorf("%s: got %s, want %s in it", what, got, want)
		}
	}
	for _, script := range blocksOf(t, string(page), "What is left in AWS") {
		run(tags.Replace(script))
	}
	if got := run(`aws iam list-roles --query 'Roles[].RoleName' --output text; aws sqs list-queues; aws events list-rules --query 'Rules[].Name' --output text`); strings.Contains(got, cluster) {
		t.Errorf("left: %s", got)
	}
}

// blocksOf returns the commands of a section that are marked as tested.
func blocksOf(t *testing.T, page, heading string) []string {
	t.Helper()
	_, section, found := strings.Cut(page, "\n## "+heading+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var blocks []string
	for _, block := range regexp.MustCompile("(?ms)^<!-- tested -->\n```sh\n(.*?)^```$").FindAllStringSubmatch(section, -1) {
		blocks = append(blocks, block[1])
	}
	if !found || len(blocks) == 0 {
		t.Fatalf("docs/set-up-by-hand.md has no commands below %q", heading)
	}
	return blocks
}

// startMoto serves moto until the test ends, and returns its address.
func startMoto(t *testing.T, program string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(address)
	server := exec.CommandContext(t.Context(), program, "-H", "127.0.0.1", "-p", port)
	server.Env = append(os.Environ(), "MOTO_IAM_LOAD_MANAGED_POLICIES=true")
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Wait() }) // the end of the context kills it
	deadline := time.After(3 * time.Minute)
	for {
		response, err := http.Get("http://" + address + "/moto-api/")
		if err == nil {
			_ = response.Body.Close()
			return "http://" + address
		}
		select {
		case <-deadline:
			t.Fatal("moto_server does not answer")
		case <-time.After(200 * time.Millisecond):
		}
	}
}
