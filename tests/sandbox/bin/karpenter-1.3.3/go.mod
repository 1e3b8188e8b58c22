// The charts and CRDs alone: no controller is built from here.
module github.com/plumbline-dev/plumbline/tests/sandbox/bin/karpenter-1.3.3

go 1.26.6

toolchain go1.27.3

require github.com/aws/karpenter-provider-aws v1.3.3
