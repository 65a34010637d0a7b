"""What an expert would say about a log before anyone trusts a shield made from it."""
