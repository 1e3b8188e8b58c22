package sandbox

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/plumbline-dev/plumbline/tests/sandbox/binaries"
)

// The access keys, by which the simulator distinguishes callers.
const (
	karpenterAccessKey = "AKIASANDBOXKARPENTER"
	plumblineAccessKey = "AKIASANDBOXPLUMBLINE"
	verifierAccessKey  = "AKIASANDBOXVERIFIER"
	enderAccessKey     = "AKIASANDBOXENDER"
	doctorAccessKey    = "AKIASANDBOXDOCTOR"
	auditorAccessKey   = "AKIASANDBOXAUDITOR"
	migratorAccessKey  = "AKIASANDBOXMIGRATOR"
	adminAccessKey     = "AKIASANDBOXADMIN" // of a bare cluster's user, who may do everything
	secretAccessKey    = "sandbox"          // it signs, but is not verified
)

// Variables of a sandbox's environment that no program reads by itself.
const (
	// VariableCluster names the EKS cluster.
	VariableCluster = "SANDBOX_CLUSTER"
	// VariableCharts is the repository of the charts, oci://….
	VariableCharts = "SANDBOX_CHARTS"
	// VariableVerifier is the access key of a user with manifests/iam-policy-verify.json.
	VariableVerifier = "SANDBOX_VERIFIER_KEY"
	// VariableEnder is that of a user with manifests/iam-policy-teardown.json in addition.
	VariableEnder = "SANDBOX_ENDER_KEY"
	// VariableDoctor is that of a user with manifests/iam-policy-doctor.json and nothing else.
	VariableDoctor = "SANDBOX_DOCTOR_KEY"
	// VariableAuditor is that of a user with manifests/iam-policy-audit.json and iam-policy-cloudtrail.json.
	VariableAuditor = "SANDBOX_AUDITOR_KEY"
	// VariableMigrator is that of a user with manifests/iam-policy-migrate.json and nothing else.
	VariableMigrator = "SANDBOX_MIGRATOR_KEY"
	// VariableAdmin is the URL of the simulator's admin endpoint.
	VariableAdmin = "SANDBOX_AWS_ADMIN"
	// VariableGitURL, …User and …Token are the Git host's administrator.
	VariableGitURL   = "SANDBOX_GIT_URL"
	VariableGitUser  = "SANDBOX_GIT_USER"
	VariableGitToken = "SANDBOX_GIT_TOKEN"
)

// Variables returns what a person or a program needs to use the sandbox: as administrator of the cluster, and as
// plumbline in AWS. It does not contain PATH: prepend Bin to it.
func (s *Sandbox) Variables() map[string]string {
	v := s.AWSVariables()
	maps.Copy(v, map[string]string{
		"KUBECONFIG":     s.Kube.Kubeconfig,
		"NO_PROXY":       "127.0.0.1,localhost",
		VariableCluster:  s.Cluster,
		VariableCharts:   s.Charts.Repository,
		VariableVerifier: verifierAccessKey,
		VariableEnder:    enderAccessKey,
		VariableDoctor:   doctorAccessKey,
		VariableAuditor:  auditorAccessKey,
		VariableMigrator: migratorAccessKey,
		VariableAdmin:    s.AWSEndpoint + "/_sandbox",
	})
	if s.Git != nil {
		v[VariableGitURL] = s.Git.URL
		v[VariableGitUser] = s.Git.Admin.Name
		v[VariableGitToken] = s.Git.Admin.Token
	}
	return v
}

// AWSVariables returns the variables for plumbline's account in the simulator; of a bare cluster, the administrator's.
func (s *Sandbox) AWSVariables() map[string]string {
	if s.options.Bare {
		return s.awsEnvironment(adminAccessKey)
	}
	return s.awsEnvironment(s.ownKey(plumblineAccessKey))
}

// Environment returns the whole environment of a program that uses the sandbox, without the machine's.
func (s *Sandbox) Environment() []string {
	v := s.Variables()
	v["PATH"] = s.Bin() + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	v["HOME"] = s.path("home")
	var all []string
	for _, name := range slices.Sorted(maps.Keys(v)) {
		all = append(all, name+"="+v[name])
	}
	return all
}

// Bin returns the folder with kubectl, helm and, if the machine has it, the AWS CLI.
func (s *Sandbox) Bin() string { return s.path("bin") }

func (s *Sandbox) awsEnvironment(accessKey string) map[string]string {
	v := s.awsPlace()
	v["AWS_ACCESS_KEY_ID"], v["AWS_SECRET_ACCESS_KEY"] = accessKey, secretAccessKey
	return v
}

// awsPlace returns the variables with the endpoint and the region, without credentials.
func (s *Sandbox) awsPlace() map[string]string {
	return map[string]string{"AWS_ENDPOINT_URL": s.AWSEndpoint, "AWS_REGION": s.Region, "AWS_DEFAULT_REGION": s.Region, "AWS_EC2_METADATA_DISABLED": "true"}
}

// writeTools makes kubectl and helm available by their names, and the AWS CLI if the machine has it.
func (s *Sandbox) writeTools() error {
	for _, dir := range []string{s.Bin(), s.path("home")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("make the folder of tools: %w", err)
		}
	}
	tools := map[string][]string{
		"kubectl": {s.kubernetes(), "kubectl"},
		"helm":    {s.paths[binaries.Helm]},
	}
	options := map[string]string{}
	if aws, err := exec.LookPath("aws"); err == nil {
		tools["aws"] = []string{aws} // it may be where PATH of a story does not lead
		// Version 1 has endpoints of SQS that AWS_ENDPOINT_URL does not replace (awscli/customizations/overridesslcommonname.py).
		options["aws"] = ` ${AWS_ENDPOINT_URL:+--endpoint-url "$AWS_ENDPOINT_URL"}`
	}
	for name, command := range tools {
		for i, word := range command {
			command[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
		script := "#!/bin/sh\nexec " + strings.Join(command, " ") + options[name] + ` "$@"` + "\n"
		if err := os.WriteFile(s.path("bin/"+name), []byte(script), 0o700); err != nil {
			return fmt.Errorf("write the tool %s: %w", name, err)
		}
	}
	return nil
}
