"""What tests share: fakes, made-up data, sessions in namespaces, and where things lie."""
