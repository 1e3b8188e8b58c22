# What stands for the charts, the role, the cluster and the VPC writes down when it goes.

variable "log" { type = string }

resource "terraform_data" "vpc" {
  input = var.log
  provisioner "local-exec" {
    when    = destroy
    command = "echo vpc >> ${self.output}"
  }
}

resource "terraform_data" "cluster" {
  input      = var.log
  depends_on = [terraform_data.vpc]
  provisioner "local-exec" {
    when    = destroy
    command = "echo cluster >> ${self.output}"
  }
}

resource "terraform_data" "role" {
  input = var.log
  provisioner "local-exec" {
    when    = destroy
    command = "echo role >> ${self.output}"
  }
}

resource "terraform_data" "charts" {
  input      = var.log
  depends_on = [terraform_data.cluster]
  provisioner "local-exec" {
    when    = destroy
    command = "echo charts >> ${self.output}"
  }
}

variable "region" {
  type    = string
  default = "eu-west-1"
}

module "teardown" {
  source       = "./nodes"
  kubeconfig   = "/theirs"
  cluster_name = "prod-eu"
  region       = var.region
  depends_on   = [terraform_data.charts, terraform_data.role, terraform_data.cluster, terraform_data.vpc]
}
