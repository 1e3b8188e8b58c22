package manifests

import "embed"

// The IAM policies of plumbline, with ${PARTITION}, ${REGION}, ${ACCOUNT} and ${CLUSTER_NAME} to replace.
var (
	// DaemonPolicy is that of plumbline's role. It only reads.
	//
	//go:embed iam-policy.json
	DaemonPolicy string
	// VerifyPolicy is that of a user of `plumbline verify`.
	//
	//go:embed iam-policy-verify.json
	VerifyPolicy string
	// ProtectPolicy is what plumbline's role needs beside DaemonPolicy for spec.guard.onIdentityConflict: Protect.
	//
	//go:embed iam-policy-protect.json
	ProtectPolicy string
	// TeardownPolicy is what a user of `plumbline teardown --terminate` or `--sweep` needs beside VerifyPolicy.
	//
	//go:embed iam-policy-teardown.json
	TeardownPolicy string
	// DoctorPolicy is that of a user of `plumbline doctor`. It only reads.
	//
	//go:embed iam-policy-doctor.json
	DoctorPolicy string
	// MigratePolicy is that of a user of `plumbline migrate`.
	//
	//go:embed iam-policy-migrate.json
	MigratePolicy string
)

// Chart is the folder of plumbline's own Helm chart.
//
//go:embed all:chart
var Chart embed.FS
